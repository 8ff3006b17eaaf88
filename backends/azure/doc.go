// Package azure is a store in a container of Azure Blob Storage.
//
// # Configuration
//
// storage.backend=azure, storage.azure.container.name, and either a connection string or an account. With an account the credentials are its key, a
// shared access signature, or, without either, those of DefaultAzureCredential: environment, workload identity, managed identity, Azure CLI. An
// emulator needs storage.azure.endpoint.url, http://127.0.0.1:10000/devstoreaccount1 for Azurite. Settings have the names that Aiven's plug-in gives
// them where it has them.
//
// # Consistency
//
// Reads, listings and deletes see every finished write at once. Info.Version is the ETag. An object comes into being in one step: Put Blob, or Put
// Block List. When the answer to that step is lost, a HEAD of the key tells by a random token in the blob's metadata whether it was done.
//
// Uncommitted blocks belong to the name of a blob. Their ids are random for each upload, so two uploads to one key never mix; the first one to commit
// drops the other's blocks, and the other one fails with Unavailable and may be sent again.
//
// # Errors
//
// The service's error codes decide, never texts. A container that does not exist is InvalidArgument. Wrong certificates and host names are
// InvalidArgument and name the setting; they are not tried again. A refusal by a service whose clock differs from ours by more than 15 minutes is ClockSkew.
//
// # Limits
//
// Keys of 1,024 bytes in 254 segments, no backslash, no control character, no segment that ends with a dot; blobs of 50,000 blocks of 4,000 MiB. A body that fits one
// block is one request. Memory is that of package parts. Blocks of an upload that failed cannot be removed: nobody sees them, and the service drops them
// after a week (Properties.PendingExpires).
//
// # Permissions
//
// Of a signature r, w, c, d and l on the container; of a role read, write and delete of blobs, which "Storage Blob Data Contributor" on the container has.
package azure
