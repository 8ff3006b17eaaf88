package io.github.tierkit.kafka;

import java.io.Closeable;
import java.io.IOException;

/** The process that does the work: one that the plug-in supervises, or one that somebody else runs. */
interface Daemon extends Closeable {
    /** Where it is now. An IOException: nowhere at the moment. */
    Endpoint endpoint() throws IOException;

    /** Where it is after it refused the token of an endpoint: another one if the token or the place has changed. */
    Endpoint afterRefusal(Endpoint refused) throws IOException;

    /** A request to an endpoint got no answer, perhaps since certificates were renewed: the next one asks for the endpoint anew. */
    void afterSilence(Endpoint silent);

    @Override
    void close();
}
