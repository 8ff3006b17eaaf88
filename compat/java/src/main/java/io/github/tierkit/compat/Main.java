package io.github.tierkit.compat;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * {@code Main JOBS RESULTS}: reads every segment of the list in the file JOBS and writes what came of it to RESULTS, one
 * start of the JVM for all of them. The bytes go to the directory of each job: {@code log}, {@code range-0} and so on, and
 * each index under its type.
 */
public final class Main {
    private static final List<String> INDEXES =
        List.of("OFFSET", "TIMESTAMP", "PRODUCER_SNAPSHOT", "LEADER_EPOCH", "TRANSACTION");

    private Main() {
    }

    /**
     * What came of one read.
     *
     * @param stage  null: no error; open: before the first byte; read: behind the first chunk
     * @param causes class names from the outermost exception to its root
     */
    record Outcome(String stage, List<String> causes, String message) {
        static final Outcome OK = new Outcome(null, List.of(), null);

        static Outcome failed(final String stage, final Throwable error) {
            final List<String> causes = new ArrayList<>();
            Throwable root = error;
            for (Throwable t = error; t != null; t = t.getCause()) {
                causes.add(t.getClass().getSimpleName());
                root = t;
            }
            return new Outcome(stage, causes, root.getMessage());
        }
    }

    /** Writes to a file; OutOfMemoryError and the like are outcomes too: a claim of a gigabyte must not end the batch. */
    private static Outcome log(final SegmentReader reader, final Path file, final int from, final int to)
        throws IOException {
        String stage = "open";
        try (OutputStream out = new BufferedOutputStream(Files.newOutputStream(file))) {
            final SegmentReader.LogStream stream = reader.openLog(from, to);
            stage = "read";
            stream.writeTo(out);
            return Outcome.OK;
        } catch (final Exception | OutOfMemoryError e) {
            return Outcome.failed(stage, e);
        }
    }

    private static Outcome index(final SegmentReader reader, final Path file, final String type) {
        try {
            Files.write(file, reader.index(type));
            return Outcome.OK;
        } catch (final Exception | OutOfMemoryError e) {
            return Outcome.failed("open", e);
        }
    }

    private static Map<String, Outcome> run(final Job job) throws IOException {
        final Path out = Files.createDirectories(Path.of(job.out()));
        final SegmentReader reader = new SegmentReader(job);
        final Map<String, Outcome> outcomes = new LinkedHashMap<>();
        outcomes.put("log", log(reader, out.resolve("log"), 0, job.segmentSizeInBytes() - 1));
        for (int i = 0; job.ranges() != null && i < job.ranges().size(); i++) {
            final int[] range = job.ranges().get(i);
            outcomes.put("range-" + i, log(reader, out.resolve("range-" + i), range[0], range[1]));
        }
        for (final String type : INDEXES) {
            outcomes.put(type, index(reader, out.resolve(type), type));
        }
        return outcomes;
    }

    /**
     * The command line.
     *
     * @param args JOBS and RESULTS
     * @throws IOException if a job list cannot be read or a result not be written
     */
    public static void main(final String[] args) throws IOException {
        if (args.length != 2) {
            System.err.println("usage: Main JOBS RESULTS");
            System.exit(2);
        }
        final ObjectMapper mapper = new ObjectMapper();
        final Map<String, Map<String, Outcome>> results = new LinkedHashMap<>();
        for (final Job job : mapper.readValue(Files.readAllBytes(Path.of(args[0])), Job[].class)) {
            results.put(job.id(), run(job));
        }
        Files.write(Path.of(args[1]), mapper.writeValueAsBytes(results));
    }
}
