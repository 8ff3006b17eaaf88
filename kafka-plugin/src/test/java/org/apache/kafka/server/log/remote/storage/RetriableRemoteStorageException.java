package org.apache.kafka.server.log.remote.storage;

/** The class of Kafka 4.2 and later, which the storage-api that the tests run with has not: here so that the plug-in finds it. */
public class RetriableRemoteStorageException extends RemoteStorageException {
    private static final long serialVersionUID = 1;

    public RetriableRemoteStorageException(String message, Throwable cause) {
        super(message, cause);
    }
}
