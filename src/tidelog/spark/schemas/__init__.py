"""Values with schemas become columns, and columns values: Avro, Protobuf and JSON Schema.

=============== ========================================================================
registry        a client of a schema registry: fetch, register and look up schemas
framing         the magic byte and schema id in front of a value
avro            Avro to Arrow columns in compiled code, by the rules of schema resolution
protobuf        Protobuf to Arrow columns
proto_files     Protobuf schemas of a registry as descriptors
proto_encoding  Arrow columns to Protobuf
json_schema     JSON values with a JSON Schema to Arrow columns
json_encoding   Arrow columns to JSON values with a JSON Schema
reading         values of a format, with or without a registry, to one Arrow column
writing         one Arrow column to values of a format
functions       ``from_tidelog`` and ``to_tidelog``, for Spark's columns
=============== ========================================================================

Nothing here knows topics or tables.
"""
