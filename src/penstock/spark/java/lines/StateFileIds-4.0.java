import scala.Option;
import scala.collection.mutable.HashMap;

/** The ids of the state files that a batch has written. */
class StateFileIds {
    /**
     * Puts the ids of an operator into `known`, by partition, and adds a record for each partition:
     * operator, partition, version, the number of ids that it started from, or -1, these, its own.
     */
    static void take(StateStoreWriter writer, HashMap known, Records records) {
        StateInfo state = (StateInfo) writer.stateInfo().get();
        StateCheckpointInfo[] partitions = writer.getStateStoreCheckpointInfo();
        String[][] ids = new String[partitions.length][];
        for (int i = 0; i < partitions.length; i++) {
            StateCheckpointInfo partition = partitions[i];
            Option base = partition.baseStateStoreCkptId();
            String[] from = base.isDefined() ? (String[]) base.get() : new String[0];
            ids[i] = (String[]) partition.stateStoreCkptId().get();
            records.add(state.operatorId()).add(partition.partitionId());
            records.add(partition.batchVersion()).add(base.isDefined() ? from.length : -1);
            for (String id : from) { records.add(id); }
            for (String id : ids[i]) { records.add(id); }
            records.end();
        }
        known.put(Long.valueOf(state.operatorId()), ids);
    }
}
