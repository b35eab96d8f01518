// Programs with franz-go's client, each as its users write it: the tests run them against a broker and read what they print.
//
//	franz produce  BOOTSTRAP TOPIC PARTITIONS COUNT           idempotent records "0".."COUNT-1", n to partition n % PARTITIONS
//	franz transact BOOTSTRAP TOPIC TRANSACTIONAL-ID OUTCOMES  a transaction for each letter: c commits, a aborts, o leaves open
//	franz fence    BOOTSTRAP TOPIC TRANSACTIONAL-ID           two instances of one transactional id
//	franz copy     BOOTSTRAP FROM TO GROUP TRANSACTIONAL-ID COUNT SEED
//	               consume, transform, produce until COUNT records were committed by this worker;
//	               SEED > 0 aborts some transactions
//	franz serve                                               a transactional producer that does what it is told on standard
//	               input, as tests/support/transactions/client_process.py has it
//	franz read     BOOTSTRAP TOPIC PARTITION END ISOLATION    values up to offset END
//	franz send     BOOTSTRAP TOPIC CODEC IDEMPOTENT           records from standard input, one on each line
//	franz fetch    BOOTSTRAP TOPIC PARTITION FIRST COUNT      whole records, from offset FIRST on
//	franz offset   BOOTSTRAP TOPIC PARTITION TIMESTAMP        the first offset at or after a time; -2 begins, -1 ends the log
//
// One JSON object is printed on each line. An error that is not part of the story goes to standard error, exit code 1.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const deadline = 60 * time.Second

func main() {
	programs := map[string]func(context.Context, []string) error{
		"produce": produce, "transact": transact, "fence": fence, "copy": copyAll, "read": read,
		"serve": serve,
		"send":  send, "fetch": fetch, "offset": offset,
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*deadline)
	defer cancel()
	program := programs[os.Args[1]]
	if program == nil {
		fmt.Fprintln(os.Stderr, "no program", os.Args[1])
		os.Exit(2)
	}
	if err := program(ctx, os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func produce(ctx context.Context, args []string) error {
	partitions, count := number(args[2]), number(args[3])
	client, err := kgo.NewClient(
		kgo.SeedBrokers(args[0]), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for n := range count {
		records = append(records, record(args[1], n%partitions, n))
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	offsets := make([]int64, 0, count)
	for _, one := range records {
		offsets = append(offsets, one.Offset)
	}
	tell(map[string]any{"offsets": offsets})
	return nil
}

func transactional(bootstrap, id string) (*kgo.Client, error) {
	return timed(bootstrap, id, deadline)
}

func timed(bootstrap, id string, timeout time.Duration) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.TransactionalID(id), kgo.AllowAutoTopicCreation(),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.TransactionTimeout(timeout),
	)
}

func transact(ctx context.Context, args []string) error {
	client, err := transactional(args[0], args[2])
	if err != nil {
		return err
	}
	defer client.Close()
	for n, outcome := range args[3] {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, record(args[1], 0, n), record(args[1], 1, n)).FirstErr(); err != nil {
			return err
		}
		id, epoch, err := client.ProducerID(ctx)
		if err != nil {
			return err
		}
		tell(map[string]any{"producer_id": id, "producer_epoch": epoch})
		if outcome == 'o' {
			continue
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(outcome == 'c')); err != nil {
			return err
		}
	}
	return nil
}

func fence(ctx context.Context, args []string) error {
	first, err := transactional(args[0], args[2])
	if err != nil {
		return err
	}
	defer first.Close()
	second, err := transactional(args[0], args[2])
	if err != nil {
		return err
	}
	defer second.Close()
	for n, client := range []*kgo.Client{first, second} {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		if err := client.ProduceSync(ctx, record(args[1], 0, n)).FirstErr(); err != nil {
			return err
		}
	}
	zombie := first.EndTransaction(ctx, kgo.TryCommit)
	owner := second.EndTransaction(ctx, kgo.TryCommit)
	tell(map[string]any{
		"fenced": isFenced(zombie),
		"zombie": text(zombie), "owner": text(owner),
	})
	return nil
}

// A producer between commands. A record that fails is told of at the next flush or commit.
type served struct {
	client *kgo.Client
	lock   sync.Mutex
	failed error
}

func serve(ctx context.Context, _ []string) error {
	one := &served{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var method string
		var arguments []any
		if err := json.Unmarshal(lines.Bytes(), &[]any{&method, &arguments}); err != nil {
			return err
		}
		answer := "null"
		if err := one.do(ctx, method, arguments); err != nil {
			kind := fmt.Sprintf("%T", err)
			if isFenced(err) {
				kind = "FencedOutError"
			}
			line, err := json.Marshal([]string{kind, err.Error()})
			if err != nil {
				return err
			}
			answer = string(line)
		}
		fmt.Println(answer)
	}
	return nil
}

func (one *served) do(ctx context.Context, method string, arguments []any) error {
	switch method {
	case "open":
		timeout := time.Duration(arguments[3].(float64)) * time.Millisecond
		client, err := timed(arguments[1].(string), arguments[2].(string), timeout)
		if err != nil {
			return err
		}
		one.client = client
		_, _, err = client.ProducerID(ctx)
		return err
	case "begin":
		one.failed = nil
		return one.client.BeginTransaction()
	case "send":
		value, err := base64.StdEncoding.DecodeString(arguments[2].(string))
		if err != nil {
			return err
		}
		record := &kgo.Record{Topic: arguments[0].(string), Partition: int32(arguments[1].(float64)), Value: value}
		one.client.Produce(ctx, record, func(_ *kgo.Record, err error) {
			one.lock.Lock()
			defer one.lock.Unlock()
			if one.failed == nil {
				one.failed = err
			}
		})
		return nil
	case "flush":
		return one.flush(ctx)
	case "commit":
		if err := one.flush(ctx); err != nil {
			return err
		}
		return one.client.EndTransaction(ctx, kgo.TryCommit)
	case "abort":
		if err := one.client.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		return one.client.EndTransaction(ctx, kgo.TryAbort)
	}
	return fmt.Errorf("no method %s", method)
}

func (one *served) flush(ctx context.Context) error {
	if err := one.client.Flush(ctx); err != nil {
		return err
	}
	one.lock.Lock()
	defer one.lock.Unlock()
	return one.failed
}

func isFenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch)
}

func copyAll(ctx context.Context, args []string) error {
	count, seed := number(args[5]), number(args[6])
	dice := rand.New(rand.NewSource(int64(seed)))
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(args[0]), kgo.TransactionalID(args[4]), kgo.ConsumerGroup(args[3]), kgo.ConsumeTopics(args[1]),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.RequireStableFetchOffsets(), kgo.AllowAutoTopicCreation(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(200*time.Millisecond),
	)
	if err != nil {
		return err
	}
	defer session.Close()
	committed, aborted := 0, 0
	for committed < count {
		fetches := session.PollRecords(ctx, 50)
		if err := fetches.Err(); err != nil {
			return err
		}
		if fetches.Empty() {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		var failed error
		fetches.EachRecord(func(in *kgo.Record) {
			out := &kgo.Record{Topic: args[2], Partition: in.Partition, Value: in.Value}
			session.Produce(ctx, out, func(_ *kgo.Record, err error) {
				if err != nil && !errors.Is(err, kgo.ErrAborting) {
					failed = err
				}
			})
		})
		wish := kgo.TransactionEndTry(seed == 0 || dice.Intn(3) > 0)
		done, err := session.End(ctx, wish)
		if err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
		if done {
			committed += fetches.NumRecords()
		} else {
			aborted++
		}
		tell(map[string]any{"committed": committed, "aborted": aborted})
	}
	return nil
}

func read(ctx context.Context, args []string) error {
	partition, end := int32(number(args[2])), int64(number(args[3]))
	isolation := kgo.ReadUncommitted()
	if args[4] == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(args[0]), kgo.FetchIsolationLevel(isolation), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{args[1]: {partition: kgo.NewOffset().AtStart()}}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	values := []string{}
	for next := int64(0); next < end; {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			next = one.Offset + 1
			if !one.Attrs.IsControl() {
				values = append(values, string(one.Value))
			}
		})
	}
	tell(map[string]any{"values": values})
	return nil
}

// A record as it is written on a line; bytes are in base64, and null is not empty.
type line struct {
	Partition     int32    `json:"partition"`
	Offset        int64    `json:"offset"`
	Key           []byte   `json:"key"`
	Value         []byte   `json:"value"`
	Headers       []header `json:"headers"`
	Timestamp     int64    `json:"timestamp"`
	LogAppendTime bool     `json:"log_append_time"`
}

type header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

var codecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func send(ctx context.Context, args []string) error {
	codec, known := codecs[args[2]]
	if !known {
		return fmt.Errorf("no codec %s", args[2])
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(args[0]), kgo.AllowAutoTopicCreation(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec),
	}
	if args[3] != "true" {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	var records []*kgo.Record
	for lines := json.NewDecoder(bufio.NewReader(os.Stdin)); lines.More(); {
		var one line
		if err := lines.Decode(&one); err != nil {
			return err
		}
		made := &kgo.Record{
			Topic: args[1], Partition: one.Partition, Key: one.Key, Value: one.Value, Timestamp: time.UnixMilli(one.Timestamp),
		}
		for _, each := range one.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: each.Key, Value: each.Value})
		}
		records = append(records, made)
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return err
	}
	offsets := make([]int64, 0, len(records))
	for _, one := range records {
		offsets = append(offsets, one.Offset)
	}
	tell(map[string]any{"offsets": offsets})
	return nil
}

func fetch(ctx context.Context, args []string) error {
	partition, first, count := int32(number(args[2])), int64(number(args[3])), number(args[4])
	client, err := kgo.NewClient(
		kgo.SeedBrokers(args[0]),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{args[1]: {partition: kgo.NewOffset().At(first)}}),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	for count > 0 {
		fetches := client.PollRecords(ctx, count)
		if err := fetches.Err(); err != nil {
			return err
		}
		fetches.EachRecord(func(one *kgo.Record) {
			headers := []header{}
			for _, each := range one.Headers {
				headers = append(headers, header{each.Key, each.Value})
			}
			tell(line{
				one.Partition, one.Offset, one.Key, one.Value, headers, one.Timestamp.UnixMilli(), one.Attrs.TimestampType() == 1,
			})
			count--
		})
	}
	return nil
}

func offset(ctx context.Context, args []string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(args[0]))
	if err != nil {
		return err
	}
	defer client.Close()
	partition := kmsg.NewListOffsetsRequestTopicPartition()
	partition.Partition, partition.Timestamp = int32(number(args[2])), int64(number(args[3]))
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic, topic.Partitions = args[1], append(topic.Partitions, partition)
	request := kmsg.NewPtrListOffsetsRequest()
	request.ReplicaID, request.Topics = -1, append(request.Topics, topic)
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	found := response.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return err
	}
	tell(map[string]any{"offset": found.Offset})
	return nil
}

func record(topic string, partition, n int) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: int32(partition), Value: []byte(strconv.Itoa(n))}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	return n
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func tell(what any) {
	line, err := json.Marshal(what)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(line))
}
