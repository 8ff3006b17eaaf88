// Package gcs is a store in a bucket of Google Cloud Storage.
//
// # Configuration
//
// storage.backend=gcs and storage.gcs.bucket.name. Credentials are a JSON text, a file of it (read again when it changes), none at all
// (storage.gcs.credentials.default=false), else application default credentials: environment, gcloud, workload identity, metadata server. An emulator needs
// storage.gcs.endpoint.url. Settings have the names that Aiven's plug-in gives them where it has them. It speaks JSON over HTTP/1.1: HTTP/2 would put
// all parallel reads on one or two connections.
//
// # Consistency
//
// Reads, listings and deletes see every finished write at once. Info.Version is the generation. An object comes into being in one step: the only, or the last,
// request of an upload. When the answer to that step is lost, the object's attributes tell by a random token in its metadata whether it was done. What the
// store says of size and CRC-32C after an upload is compared with what was sent; an object that differs is removed by its generation.
//
// A whole object's CRC-32C is checked when it is read; ranges rely on the checksums of stored chunks.
//
// # Errors
//
// Reasons and statuses of the service decide, never texts. A missing bucket, whose answer is that of a missing object, is told from it by a
// listing, and is InvalidArgument. Wrong certificates and host names are InvalidArgument and name the setting; they are not tried again.
//
// # Limits
//
// Keys of 1,024 bytes without line breaks, objects of 5 TiB. One object can be written about once a second. A body that fits one chunk is one
// request; larger ones are sent chunk after chunk, each from the SDK's one buffer, for which the memory is reserved. The session of an upload that failed
// expires after a week (Properties.PendingExpires); nobody sees it. There is no bulk delete.
//
// # Permissions
//
// storage.objects.create, get, list and delete on the bucket, which the role "Storage Object User" (roles/storage.objectUser) has.
package gcs
