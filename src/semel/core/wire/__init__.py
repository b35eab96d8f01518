"""Bytes and messages: the schema-driven codec of Kafka's protocol.

Role.   Everything between a frame on a connection and a typed message, without I/O.

            frames = FrameReader(frame_max_bytes).feed(data)                 # framing
            header, position = read_request_header(frame)
            request = api(header.api_key).request.decode(frame, header.api_version, position)   # registry
            response_frame(header.correlation_id, HeartbeatResponse(error_code=0), header.api_version)

Flow.   `messages/` declares every message in the language of `schema`; `message` compiles it per version with
        `compile_read` and `compile_write`; `plain` is the slow reference that explains failures, built from
        `primitives`. `api_versions` builds the ApiVersions response, which has special rules.
Rules.  * The package imports nothing: a client that only produces loads only the messages it uses.
        * Invalid bytes raise `WireError`; an unknown version or API, `UnsupportedVersionError`.
"""
