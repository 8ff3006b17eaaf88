package fault

import "net/http"

// Dialect knows one protocol: it names what a request is for, and forges the errors of the provider. It is all that a plan has to know of a store. A
// vendor writes some 60 lines; those of S3, Google Cloud Storage and Azure are in package conformance/dialect.
type Dialect interface {
	// Step names the request by method, path, query and headers; it does not read the body. "" is a request that the dialect does not know, with which
	// a run fails: nothing goes out unclassified. The names below are those that the suite knows; others are allowed, and get the cells that hold for
	// every request.
	Step(r *http.Request) string

	// Error returns the provider's answer of that kind to a request of that step, with body and headers as the provider sends them. Its status is the
	// provider's; a plan may put another one in its place. Nil: the provider has no such answer.
	Error(step string, kind ErrorKind) *http.Response
}

// The steps that the suite knows.
const (
	Put    = "put"    // a whole object in one request
	Get    = "get"    // an object's bytes
	Stat   = "stat"   // what is known of an object, without its bytes
	Delete = "delete" // one object
	Bulk   = "bulk"   // the removal of many objects
	List   = "list"   // a page of a listing
	Bucket = "bucket" // the bucket or container itself
	Token  = "auth.token"

	Discovery = "auth.discovery" // where tokens are to be had: some clients ask, and do without an answer

	MPUBegin  = "mpu.begin"
	MPUPart   = "mpu.part"
	MPUCommit = "mpu.commit"
	MPUAbort  = "mpu.abort"
	MPUParts  = "mpu.parts" // what an upload has so far
	MPUList   = "mpu.list"  // unfinished uploads

	ResumableBegin  = "resumable.begin"
	ResumableChunk  = "resumable.chunk"  // any but the last
	ResumableCommit = "resumable.commit" // the last chunk, with which the object is there
	ResumableQuery  = "resumable.query"
	ResumableCancel = "resumable.cancel"

	BlockStage  = "block.stage"
	BlockCommit = "block.commit"
	BlockList   = "block.list"
)

// ErrorKind is what a provider's answer says, whatever its words.
type ErrorKind string

// The kinds. The number behind each is the usual status; providers differ.
const (
	Internal        ErrorKind = "internal"        // 500
	BadGateway      ErrorKind = "bad-gateway"     // 502
	Unavailable     ErrorKind = "unavailable"     // 503, nothing said about the rate
	GatewayTimeout  ErrorKind = "gateway-timeout" // 504
	TooManyRequests ErrorKind = "too-many"        // 429
	SlowDown        ErrorKind = "slow-down"       // 503, or whatever else asks for a lower rate
	RateLimit       ErrorKind = "rate-limit"      // 403 that means 429 (Google)
	BadRequest      ErrorKind = "bad-request"     // 400
	Unauthenticated ErrorKind = "unauthenticated" // 401, or 403 with wrong credentials
	ExpiredToken    ErrorKind = "expired-token"   // credentials that were right
	Denied          ErrorKind = "denied"          // 403
	ClockSkew       ErrorKind = "clock-skew"      // 403 because of the time
	NotFound        ErrorKind = "not-found"       // 404, the object
	NoBucket        ErrorKind = "no-bucket"       // 404, the bucket
	NoUpload        ErrorKind = "no-upload"       // 404, 410 or 400: the upload, session or blocks
	Conflict        ErrorKind = "conflict"        // 409
	Precondition    ErrorKind = "precondition"    // 412, or 409 where the provider says so
	InvalidRange    ErrorKind = "invalid-range"   // 416
	BadChecksum     ErrorKind = "bad-checksum"    // 400, the bytes are not those that were announced
	Quota           ErrorKind = "quota"           // no space left
	Archived        ErrorKind = "archived"        // 403 or 409, an archive tier
	RequestTimeout  ErrorKind = "request-timeout" // 408 or 400, the body did not come in time
)

// Kinds returns every kind, in a fixed order.
func Kinds() []ErrorKind {
	return []ErrorKind{
		Internal, BadGateway, Unavailable, GatewayTimeout, TooManyRequests, SlowDown, RateLimit, BadRequest, Unauthenticated, ExpiredToken, Denied,
		ClockSkew, NotFound, NoBucket, NoUpload, Conflict, Precondition, InvalidRange, BadChecksum, Quota, Archived, RequestTimeout,
	}
}
