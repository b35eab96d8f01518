"""Frames of ZooKeeper's protocol: a header and a message, at the server's end and at the client's.

Role.   The server reads a connect request, then requests, and writes answers and events; the client the other way round.
Rules.  * A frame here has no length before it: `framed` puts it there.
        * An answer does not say what it answers: its reader is told the request.
        * A client of today ends its connect request with a byte (read-only); it is answered with one.
"""

from semel.core.zookeeper.wire.jute import INT, LONG, STRING, MalformedError, Reader
from semel.core.zookeeper.wire.messages import (
    ANSWERS,
    CONNECT_REQUEST,
    CONNECT_RESPONSE,
    CREATE_FIELDS,
    GET_CHILDREN_FIELDS,
    MULTI_END,
    MULTI_HEADER,
    REQUESTS,
    Answer,
    Check,
    Checked,
    ConnectRequest,
    ConnectResponse,
    Create,
    Created,
    CreatedWithStat,
    CreateFields,
    Delete,
    Deleted,
    Failed,
    GetChildren,
    GetChildrenFields,
    Multi,
    MultiHeader,
    MultiOperation,
    MultiResult,
    MultiResults,
    Op,
    ReplyHeader,
    Request,
    SetData,
    StatOf,
    Unserved,
    WatchEvent,
    op_of,
)
from semel.core.zookeeper.words import EventType, ZooKeeperCode


def framed(payload: bytes) -> bytes:
    """With its length before it."""
    return len(payload).to_bytes(4, "big") + payload


# The server's end


def read_connect_request(payload: bytes) -> tuple[ConnectRequest, bool]:
    """The first frame, and whether its sender knows of read-only servers."""
    reader = Reader(payload)
    request = CONNECT_REQUEST.read(reader)
    return request, not reader.is_at_end


def read_request(payload: bytes) -> tuple[int, Request]:
    """The xid, and what is asked."""
    reader = Reader(payload)
    xid, op = INT.read(reader), INT.read(reader)
    if op == Op.MULTI:
        return xid, _read_multi(reader)
    return xid, _read_body(op, reader)


def connect_response_frame(response: ConnectResponse, *, knows_read_only: bool) -> bytes:
    data = bytearray()
    CONNECT_RESPONSE.write(data, response)
    if knows_read_only:
        data.append(0)
    return framed(bytes(data))


def reply_frame(header: ReplyHeader, op: int, answer: Answer | None) -> bytes:
    """The answer to a request of this kind; none where the header says why."""
    data = _header(header)
    match answer:
        case None:
            pass
        case MultiResults():
            _write_results(data, answer)
        case _:
            ANSWERS[Op(op)].write(data, answer)
    return framed(bytes(data))


def event_frame(zxid: int, event: WatchEvent) -> bytes:
    data = _header(ReplyHeader(-1, zxid, ZooKeeperCode.OK))
    INT.write(data, event.type)
    INT.write(data, event.state)
    STRING.write(data, event.path)
    return framed(bytes(data))


# The client's end


def connect_request_frame(request: ConnectRequest) -> bytes:
    data = bytearray()
    CONNECT_REQUEST.write(data, request)
    data.append(0)
    return framed(bytes(data))


def request_frame(xid: int, request: Request) -> bytes:
    data = bytearray()
    INT.write(data, xid)
    INT.write(data, op_of(request))
    if isinstance(request, Multi):
        for one in request.operations:
            MULTI_HEADER.write(data, MultiHeader(op_of(one), False, -1))
            _write_body(data, one)
        MULTI_HEADER.write(data, MULTI_END)
    else:
        _write_body(data, request)
    return framed(bytes(data))


def read_connect_response(payload: bytes) -> ConnectResponse:
    return CONNECT_RESPONSE.read(Reader(payload))


def read_reply_header(payload: bytes) -> tuple[ReplyHeader, Reader]:
    """The header, and the place behind it."""
    reader = Reader(payload)
    header = ReplyHeader(INT.read(reader), LONG.read(reader), _code(INT.read(reader)))
    return header, reader


def read_event(reader: Reader) -> WatchEvent:
    try:
        return WatchEvent(EventType(INT.read(reader)), INT.read(reader), STRING.read(reader))
    except ValueError as error:
        raise MalformedError(f"an event that is none: {error}") from error


def read_answer(request: Request, reader: Reader) -> Answer:
    """The body of an answer whose header says OK."""
    if isinstance(request, Multi):
        return _read_results(reader)
    answer: Answer = ANSWERS[Op(op_of(request))].read(reader)
    return answer


# Both


def _code(number: int) -> ZooKeeperCode:
    try:
        return ZooKeeperCode(number)
    except ValueError as error:
        raise MalformedError(f"{number} is not a code of ZooKeeper's") from error


def _header(header: ReplyHeader) -> bytearray:
    data = bytearray()
    INT.write(data, header.xid)
    LONG.write(data, header.zxid)
    INT.write(data, header.code)
    return data


def _read_body(op: int, reader: Reader) -> Request:
    match op:
        case Op.CREATE | Op.CREATE2:
            one = CREATE_FIELDS.read(reader)
            return Create(one.path, one.data, one.acl, one.flags, op == Op.CREATE2)
        case Op.GET_CHILDREN | Op.GET_CHILDREN2:
            asked = GET_CHILDREN_FIELDS.read(reader)
            return GetChildren(asked.path, asked.watch, op == Op.GET_CHILDREN2)
        case _ if op in REQUESTS:
            request: Request = REQUESTS[Op(op)].read(reader)
            return request
        case _:
            return Unserved(op)


def _write_body(data: bytearray, request: Request) -> None:
    match request:
        case Create():
            CREATE_FIELDS.write(data, CreateFields(request.path, request.data, request.acl, request.flags))
        case GetChildren():
            GET_CHILDREN_FIELDS.write(data, GetChildrenFields(request.path, request.watch))
        case Unserved():
            pass
        case _:
            REQUESTS[Op(op_of(request))].write(data, request)


def _read_multi(reader: Reader) -> Multi:
    operations: list[MultiOperation] = []
    while not (header := MULTI_HEADER.read(reader)).is_end:
        one = _read_body(header.op, reader)
        if not isinstance(one, Create | Delete | SetData | Check):
            raise MalformedError(f"a multi cannot hold the operation {header.op}")
        operations.append(one)
    return Multi(tuple(operations))


def _result_op(result: MultiResult) -> Op:
    match result:
        case Created():
            return Op.CREATE
        case CreatedWithStat():
            return Op.CREATE2
        case StatOf():
            return Op.SET_DATA
        case Deleted():
            return Op.DELETE
        case Checked():
            return Op.CHECK
        case Failed():
            return Op.ERROR


def _write_results(data: bytearray, results: MultiResults) -> None:
    for one in results.results:
        op = _result_op(one)
        code = one.code if isinstance(one, Failed) else ZooKeeperCode.OK
        MULTI_HEADER.write(data, MultiHeader(op, False, code))
        if isinstance(one, Failed):
            INT.write(data, code)
        else:
            ANSWERS[op].write(data, one)
    MULTI_HEADER.write(data, MULTI_END)


def _read_results(reader: Reader) -> MultiResults:
    results: list[MultiResult] = []
    while not (header := MULTI_HEADER.read(reader)).is_end:
        if header.op == Op.ERROR:
            results.append(Failed(_code(INT.read(reader))))
        else:
            results.append(ANSWERS[Op(header.op)].read(reader))
    return MultiResults(tuple(results))
