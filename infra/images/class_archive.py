"""Writes an archive of Spark's classes, which its Java processes map instead of loading them.

    class_archive.py FOLDER

writes FOLDER/spark.jar, which names Spark's jars in an order that does not depend on the disk, and
FOLDER/spark.jsa, what Java has loaded and verified when a query such as Keyspread's has run. A
Java that is started with

    -XX:SharedArchiveFile=FOLDER/spark.jsa -cp FOLDER/spark.jar:...

starts Spark in half the time, and one that finds the archive unfit goes on without it. The jars are
to lie below FOLDER, for a manifest's paths are relative and Java takes no detour by "..".

Java is given that class path alone here: Spark's own begins with its folder of settings, and an
archive of a folder with files in it is refused.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LINE_BYTES = 70
NUM_ROWS = 1_000
# Java writes the archive when it ends.
ARCHIVE_SECONDS = 240.0


def write_jar(jar: Path, jars: Path) -> None:
    """Write a jar that has nothing but the names of others."""
    names = " ".join(str(path.relative_to(jar.parent)) for path in sorted(jars.glob("*.jar")))
    text = f"Class-Path: {names}"
    lines = [text[at : at + LINE_BYTES] for at in range(0, len(text), LINE_BYTES)]
    manifest = "Manifest-Version: 1.0\r\n" + "\r\n ".join(lines) + "\r\n\r\n"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("META-INF/MANIFEST.MF", manifest)


def submit(arguments: list[str]) -> None:
    """Do as Spark's `spark-submit`, with the class path of the archive."""
    home, folder = Path(os.environ["SPARK_HOME"]), Path(os.environ["CLASS_ARCHIVE_FOLDER"])
    launcher = ["java", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main"]
    said = subprocess.check_output(
        [*launcher, "org.apache.spark.deploy.SparkSubmit", *arguments],
        # It asks, for a class path that is not used here.
        env={**os.environ, "SPARK_SCALA_VERSION": "2.13"},
    )
    # Before the words of the command stands a line end of their own.
    command = [word.decode().lstrip("\n") for word in said.split(b"\0") if word.strip()]
    at = command.index("-cp")
    command[at : at + 2] = [
        f"-XX:ArchiveClassesAtExit={folder}/spark.jsa",
        "-Xlog:cds=off,cds+dynamic=off",
        "-cp",
        f"{folder}/spark.jar",
    ]
    os.execvp(command[0], command)  # noqa: S606 - its words are Spark's launcher's


def run_a_query(scratch: Path) -> None:
    """Run what Keyspread's queries consist of, and end Java, which then writes the archive."""
    from pyspark import SparkContext
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    from pipelines.session import query_session, spark_session

    class Reader(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"row": 0}

        def latestOffset(self) -> dict[str, int]:
            self.asked = getattr(self, "asked", 0) + 1
            return {"row": min(self.asked, 2) * NUM_ROWS}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
            return [InputPartition((start["row"], end["row"]))]

        def read(self, partition: InputPartition) -> Iterator[Any]:
            import pyarrow as pa

            numbers = pa.array([row % 2 for row in range(*partition.value)], pa.int32())
            blobs = pa.array([b"x"] * len(numbers), pa.binary())
            yield pa.RecordBatch.from_arrays([numbers, blobs], names=["label", "blob"])

    class Numbers(DataSource):
        @classmethod
        def name(cls) -> str:
            return "numbers"

        def schema(self) -> str:
            return "label int, blob binary"

        def streamReader(self, schema: Any) -> Reader:
            return Reader()

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = handle.getMapState("shard", "name string", "value binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            self.state.getValue(("name",))
            self.state.updateValue(("name",), (b"value",))
            yield next(iter(rows))

        def close(self) -> None:
            pass

    def write(frame: Any, _batch: int) -> None:
        frame.mapInArrow(lambda batches: batches, frame.schema).collect()

    session = spark_session(
        master="local[1]",
        local_dir=scratch / "local",
        config={"spark.python.daemon.module": "pyspark.daemon"},
    )
    queried = query_session(session, num_shards=1)
    queried.dataSource.register(Numbers)
    query = (
        queried.readStream.format("numbers")
        .load()
        .groupBy("label")
        .transformWithStateInPandas(Processor(), "label int, blob binary", "Update", "None")
        .writeStream.outputMode("update")
        .foreachBatch(write)
        .option("checkpointLocation", f"file://{scratch}/checkpoint")
        .start()
    )
    query.processAllAvailable()
    query.stop()
    gateway = SparkContext._gateway
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=ARCHIVE_SECONDS)


def main(folder: Path) -> None:
    """Write both files."""
    import pyspark

    home = Path(pyspark.__file__).resolve().parent
    folder = folder.resolve()
    write_jar(folder / "spark.jar", home / "jars")
    with tempfile.TemporaryDirectory() as scratch:
        # Spark as it is, but for the program that starts it.
        other = Path(scratch, "spark")
        (other / "bin").mkdir(parents=True)
        (other / "jars").symlink_to(home / "jars")
        program = other / "bin" / "spark-submit"
        program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
        program.chmod(0o755)
        os.environ.update(SPARK_HOME=str(other), CLASS_ARCHIVE_FOLDER=str(folder))
        run_a_query(Path(scratch))
    if not (folder / "spark.jsa").is_file():
        sys.exit("Java has written no archive: what it said is above")


if __name__ == "__main__":
    if Path(sys.argv[0]).name == "spark-submit":
        submit(sys.argv[1:])
    else:
        main(Path(sys.argv[1]))
