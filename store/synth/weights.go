package synth

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"

	"github.com/llmrun/llmrun/quant"
)

// bufferBytes is about how much is made at once: it stays in the cache until it
// is written.
const bufferBytes = 256 << 10

// reader yields the bytes of one tensor, made as they are asked for.
type reader struct {
	ctx      context.Context
	generate func(p []byte) // fills p, whole blocks
	buf      []byte         // a chunk
	unread   []byte         // what of it was not read yet
	onRead   func(n int)    // told of bytes that were read
}

// Read implements io.Reader. It has no end: the writer knows how much it needs.
func (r *reader) Read(p []byte) (int, error) {
	if len(r.unread) == 0 {
		if err := r.ctx.Err(); err != nil {
			return 0, err
		}
		r.generate(r.buf)
		r.unread = r.buf
	}
	n := copy(p, r.unread)
	r.unread = r.unread[n:]
	r.onRead(n)
	return n, nil
}

// matrixReader yields random blocks. A product with a vector of mean square 1
// has about the variance 1. chunk is working memory, which readers may share
// that are not read in turns.
func matrixReader(ctx context.Context, t *tensor, typ quant.Type, src source, chunk []byte, done func(int)) (io.Reader, error) {
	fill, err := newFiller(typ, 1/math.Sqrt(float64(t.cols())))
	if err != nil {
		return nil, err
	}
	buf := chunk[:len(chunk)/typ.BlockBytes()*typ.BlockBytes()]
	return &reader{ctx: ctx, generate: func(p []byte) { fill(&src, p) }, buf: buf, onRead: done}, nil
}

// vectorReader yields the elements of a tensor that is kept in full precision.
// They are computed when the first is asked for.
func vectorReader(compute func() []float32, done func(int)) io.Reader {
	var data *bytes.Reader
	return readFunc(func(p []byte) (int, error) {
		if data == nil {
			var raw []byte
			for _, v := range compute() {
				raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
			}
			data = bytes.NewReader(raw)
		}
		n, err := data.Read(p)
		done(n)
		return n, err
	})
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// gains are near 1.
func gains(src source, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(1 + 0.25*src.uniform())
	}
	return out
}

// biases are small beside the products that they are added to.
func biases(src source, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(0.1 * src.uniform())
	}
	return out
}

// router returns the rows of a router, in which expert e of rank r (a random
// order, another in each layer) is shorter by the factor (r+1)^-skew. The
// scores of a short row stay near 0, so such an expert is seldom among the
// highest, while those of the longest rows are used by nearly half of all
// tokens. With the skew 0 all experts are alike.
func router(src source, experts, cols int, skew float64) []float32 {
	ranks := make([]int, experts)
	for i := range ranks {
		j := src.below(i + 1)
		ranks[i], ranks[j] = ranks[j], i
	}
	const uniformStd = 0.5774
	out := make([]float32, 0, experts*cols)
	for _, rank := range ranks {
		scale := math.Pow(float64(rank+1), -skew) / uniformStd / math.Sqrt(float64(cols))
		for range cols {
			out = append(out, float32(scale*src.uniform()))
		}
	}
	return out
}
