package serve

import (
	"context"
	"errors"
	"io"

	"github.com/tierkit/tierkit/backends"
	"github.com/tierkit/tierkit/remotelog"
)

// watched is Segments whose failures make the daemon look at the store: whoever asks whether it is ready hears of a store that went away.
type watched struct {
	Segments
	doubt func()
}

// CopyNoting implements Segments.
func (w watched) CopyNoting(ctx context.Context, md remotelog.SegmentMetadata, data remotelog.SegmentData, note func()) (remotelog.CustomMetadata, error) {
	custom, err := w.Segments.CopyNoting(ctx, md, data, note)
	w.see(err)
	return custom, err
}

// Fetch implements remotelog.StorageManager.
func (w watched) Fetch(ctx context.Context, md remotelog.SegmentMetadata, start, end int64) (io.ReadCloser, error) {
	body, err := w.Segments.Fetch(ctx, md, start, end)
	if w.see(err); err != nil {
		return nil, err
	}
	return watchedBody{body, w}, nil
}

// FetchIndex implements remotelog.StorageManager.
func (w watched) FetchIndex(ctx context.Context, md remotelog.SegmentMetadata, t remotelog.IndexType) (io.ReadCloser, error) {
	body, err := w.Segments.FetchIndex(ctx, md, t)
	w.see(err)
	return body, err
}

// Delete implements remotelog.StorageManager.
func (w watched) Delete(ctx context.Context, md remotelog.SegmentMetadata) error {
	err := w.Segments.Delete(ctx, md)
	w.see(err)
	return err
}

// CleanUp implements Segments.
func (w watched) CleanUp(ctx context.Context, md remotelog.SegmentMetadata) error {
	err := w.Segments.CleanUp(ctx, md)
	w.see(err)
	return err
}

// see looks at how a call has ended. A caller who has left says nothing about the store.
func (w watched) see(err error) {
	if err == nil || errors.Is(err, context.Canceled) {
		return
	}
	kind := kindOf(err)
	if kind == KindUnavailable || kind == KindDenied || kind == KindTimeout || errors.Is(err, backends.InvalidArgument) { // the last: the bucket, or the root, is gone
		w.doubt()
	}
}

// watchedBody is a stream that may fail on its way.
type watchedBody struct {
	io.ReadCloser
	w watched
}

// Read implements io.Reader.
func (b watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != io.EOF {
		b.w.see(err)
	}
	return n, err
}
