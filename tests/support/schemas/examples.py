"""Schemas that tests of several modules use."""

import json

ORDER_1 = json.dumps(
    {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "long"}]}
)
ORDER_2 = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"], "default": None},
        ],
    }
)
ORDER_BROKEN = json.dumps(
    {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "string"}]}
)
ORDER_PROTO = """syntax = "proto3";
package shop;
message Order {
  int64 id = 1;
  message Line { string sku = 1; optional int32 pieces = 2; }
  repeated Line lines = 2;
  map<string, double> prices = 3;
}
message Refund { int64 order_id = 1; string reason = 2; }
"""
BASKET_PROTO = """syntax = "proto3";
package shop;
import "order.proto";
message Basket { repeated Order orders = 1; }
"""
ORDER_JSON = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
        "required": ["id"],
    }
)
