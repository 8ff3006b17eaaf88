package chunking

import (
	"encoding/binary"
	"fmt"

	"github.com/klauspost/compress/zstd"
)

// checkFrame walks the headers of a zstd frame (RFC 8878 section 3.1.1) and refuses everything but one frame that ends with
// the input and announces want bytes of content. The decoder alone would accept several frames and skippable ones.
func checkFrame(frame []byte, want int) error {
	var h zstd.Header
	if err := h.Decode(frame); err != nil {
		return fmt.Errorf("%w: header: %w", ErrBadFrame, err)
	}
	switch {
	case h.Skippable:
		return fmt.Errorf("%w: it is a skippable frame", ErrBadFrame)
	case !h.HasFCS:
		return fmt.Errorf("%w: header gives no content size", ErrBadFrame)
	case h.FrameContentSize != uint64(want):
		return fmt.Errorf("%w: header announces %d bytes of content, want %d", ErrBadFrame, h.FrameContentSize, want)
	case h.DictionaryID != 0:
		return fmt.Errorf("%w: it needs dictionary %d", ErrBadFrame, h.DictionaryID)
	}
	end, err := frameEnd(frame, h.HeaderSize, want)
	if err != nil {
		return err
	}
	if h.HasCheckSum {
		end += 4
	}
	switch {
	case end > len(frame):
		return fmt.Errorf("%w: it is cut off", ErrBadFrame)
	case end < len(frame):
		return fmt.Errorf("%w: %d bytes behind it", ErrBadFrame, len(frame)-end)
	}
	return nil
}

// frameEnd returns the position behind the last block. Blocks that state their content (raw and run-length ones) must not
// state more than the frame: the decoder would allocate for them before it looks.
func frameEnd(frame []byte, pos, want int) (int, error) {
	const rawBlock, rleBlock, compressedBlock = 0, 1, 2
	stated := 0
	for {
		if pos+3 > len(frame) {
			return 0, fmt.Errorf("%w: it is cut off", ErrBadFrame)
		}
		h := int(frame[pos]) | int(binary.LittleEndian.Uint16(frame[pos+1:]))<<8
		size := h >> 3
		pos += 3
		switch h >> 1 & 3 {
		case rawBlock:
			stated += size
			pos += size
		case rleBlock:
			stated += size
			pos++
		case compressedBlock:
			pos += size
		default:
			return 0, fmt.Errorf("%w: block of reserved type", ErrBadFrame)
		}
		if stated > want {
			return 0, fmt.Errorf("%w: its blocks hold more than the %d bytes announced", ErrBadFrame, want)
		}
		if h&1 == 1 {
			return pos, nil
		}
	}
}
