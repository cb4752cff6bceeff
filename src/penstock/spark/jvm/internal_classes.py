"""Every non-public class of Spark that Penstock uses, as it is in Spark 4.3.

Spark may move or change any of these in a minor release; `lines` lists what differs in the other
lines. Python and the Java sources use the key of a class and construct by keyword: only the tables
in `class_tables` and `lines` contain the full name of an internal class.
"""

from __future__ import annotations

from penstock.spark.jvm.class_tables.batch_classes import BATCH_CLASSES
from penstock.spark.jvm.class_tables.connector_classes import CONNECTOR_CLASSES
from penstock.spark.jvm.class_tables.plan_classes import PLAN_CLASSES
from penstock.spark.jvm.class_tables.session_classes import SESSION_CLASSES
from penstock.spark.jvm.internals import InternalClass

INTERNAL_CLASSES: dict[str, InternalClass] = {
    **SESSION_CLASSES,
    **PLAN_CLASSES,
    **CONNECTOR_CLASSES,
    **BATCH_CLASSES,
}
