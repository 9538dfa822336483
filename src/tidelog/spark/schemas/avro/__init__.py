"""Avro values to Arrow columns in compiled code, by Avro's rules of schema resolution; and back.

========= ==============================================================================
model     schemas as trees, with every name looked up
layout    the Arrow columns of a reader's schema, of the types that Spark's own Avro reader has
program   writer's and reader's schema to instructions for the loop
slots     instructions, and the arguments of the loop
loops     the loop over values, written for numba
decoding  Arrow buffers around the loop
reader    the reader's schema, and a decoder for each writer's
defaults  default values of fields that the writer did not have
encoding  Arrow columns to Avro values, by fastavro
========= ==============================================================================
"""
