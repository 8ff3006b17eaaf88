package io.github.tierkit.compat;

import java.util.List;
import java.util.Map;

/**
 * One segment to read.
 *
 * @param id             names the job in the results
 * @param out            directory for what was read
 * @param config         the plug-in's settings; key files as paths
 * @param locale         the JVM locale to compute keys under, null for the root locale
 * @param objects        the store: key to file
 * @param customMetadata what the copy returned, null for nothing
 * @param ranges         parts of the log to read besides the whole: first and last position
 */
record Job(String id, String out, Map<String, String> config, String locale, Map<String, String> objects, String topic,
           String topicId, int partition, String segmentId, long startOffset, int segmentSizeInBytes,
           byte[] customMetadata, List<int[]> ranges) {
}
