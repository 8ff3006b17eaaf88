// Command acme-server runs the object store of package acmeserver, to try tierkit-acme with.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"example.com/acme/driver-acme/acmeserver"
)

func main() {
	address := flag.String("address", "127.0.0.1:9580", "where to listen")
	bucket := flag.String("bucket", "segments", "the one bucket")
	life := flag.Duration("token-life", 15*time.Minute, "how long a token holds")
	flag.Parse()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", *address)
	if err != nil {
		fmt.Fprintln(os.Stderr, "acme-server:", err)
		os.Exit(1)
	}
	_, _ = fmt.Fprintf(os.Stdout, "http://%s, bucket %s, key \"key\" with the secret \"secret\", or \"reader\" with \"reader-secret\", which may only read; objects are gone when this process ends\n", l.Addr(), *bucket)
	server := &http.Server{Handler: acmeserver.New(acmeserver.Options{Bucket: *bucket, TokenLife: *life}), ReadHeaderTimeout: 10 * time.Second}
	fmt.Fprintln(os.Stderr, "acme-server:", server.Serve(l))
	os.Exit(1)
}
