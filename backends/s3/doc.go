// Package s3 is a store in a bucket of Amazon S3, or of one of the many servers that speak its protocol.
//
// # Configuration
//
// storage.backend=s3 and storage.s3.bucket.name. The region comes from storage.s3.region, the environment or the profile; a server of one's
// own needs storage.s3.endpoint.url and usually storage.s3.path.style.access.enabled=true. Settings have the names that Aiven's
// plug-in gives them where it has them. What servers do differently is a table (quirks.go), chosen by the endpoint's host or
// storage.s3.provider.
//
// Credentials are, in this order: a provider class, a credentials file (read again when it changes), keys in the settings, else the SDK's default
// chain: environment, shared files and profiles, web identity, container, instance. With storage.aws.role.arn they are used to assume that role.
//
// # Consistency
//
// Reads, listings and deletes see every finished write at once, from other clients too, as S3 promises. Info.Version is the ETag. An object comes into
// being in one step: PutObject, or CompleteMultipartUpload. Parts that wait for it are seen by ListUploads only. When the answer to that step is
// lost, a HEAD of the key tells by a random token in the object's metadata whether it was done (package parts).
//
// A reader is tied to the ETag that it began with only through the one connection it reads from; the Store opens the rest of a broken stream with If-Match.
//
// # Errors
//
// Codes and types of the SDK decide, never texts. A bucket that does not exist is InvalidArgument, also where a HEAD says no more than 404: then
// the bucket is asked for. Wrong certificates, regions and endpoints are InvalidArgument and name the setting; they are not tried again.
//
// # Limits
//
// Keys of 1,024 bytes, objects of 5 TiB, parts of 5 MiB to 5 GiB, at most 10,000 of them. A body that fits one part is one request. Memory is that of
// package parts: one part at least, one more for each that is sent at the same time.
//
// # Permissions
//
// s3:PutObject, s3:GetObject, s3:DeleteObject and s3:AbortMultipartUpload on the objects, s3:ListBucket and s3:ListBucketMultipartUploads on the bucket;
// with SSE-KMS also kms:GenerateDataKey and kms:Decrypt on the key. Without s3:ListBucket S3 answers 403 for keys that do not exist.
package s3
