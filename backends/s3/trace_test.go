package s3

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// traced counts connections that were made for the requests of a context.
func traced(ctx context.Context, fresh *atomic.Int64) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			fresh.Add(1)
		}
	}})
}
