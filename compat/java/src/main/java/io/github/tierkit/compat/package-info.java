/**
 * Reads one tiered segment as Aiven's tiered-storage plug-in reads it: neither more tolerant nor stricter. Written from
 * the description of the format and checked against every object that the plug-in wrote and against every damaged one,
 * so that what this reader accepts the plug-in accepts.
 *
 * <p>The libraries are those of the plug-in with their defaults: Jackson (an unknown property is an error), zstd-jni,
 * BouncyCastle for the wrapped data key and the JDK's own provider for AES-GCM.
 */
package io.github.tierkit.compat;
