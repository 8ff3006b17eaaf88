// Package props reads Java properties files: a broker's server.properties as it is, or a file of tierkit's own with bare keys.
//
// [Load] sorts the keys by whom they are for. Keys below the two prefixes of a broker (remote.log.storage.manager.impl.prefix, by
// default "rsm.config.", and remote.log.metadata.manager.impl.prefix, by default "rlmm.config.") go without them to the storage
// side (RSM) and the metadata side (RLMM); the rest are the broker's. A file without any such key is read as bare keys.
// In a broker's file metadata.log may also stand bare, because Kafka has no key of that name; metadata.log.dir may not, because
// Kafka has one (where KRaft keeps its log).
//
// The values are taken as they are: nothing is expanded, since "${" may be part of a password. The bytes are ISO-8859-1, as Java reads
// them; a file with others than ASCII gets a notice.
//
// Every mistake is a [settings.Problem]; those of a file are reported together.
package props
