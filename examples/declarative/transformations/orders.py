"""A topic becomes a streaming table, the table a summary, and the large orders another topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
bootstrap = spark.conf.get("orders.bootstrap")


@dp.table
def orders() -> DataFrame:
    """Every order once; values are JSON such as {"customer": "ada", "amount": 12.5}."""
    records = (
        spark.readStream.format("tidelog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    decoded = "from_json(cast(value as string), 'customer string, amount double') as order"
    return records.selectExpr(decoded, "timestamp").select("order.*", "timestamp")


@dp.materialized_view
def totals() -> DataFrame:
    return (
        spark.read.table("orders")
        .groupBy("customer")
        .agg({"amount": "sum", "*": "count"})
        .toDF("customer", "amount", "orders")
    )


dp.create_sink("large_orders", "tidelog", {"kafka.bootstrap.servers": bootstrap, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def large() -> DataFrame:
    """Written exactly once: each micro-batch in transactions."""
    found = spark.readStream.table("orders").where("amount > 1000")
    return found.selectExpr("customer as key", "to_json(struct(customer, amount)) as value")
