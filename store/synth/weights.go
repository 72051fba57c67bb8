package synth

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"math"

	"github.com/llmrun/llmrun/quant"
)

// bufferBytes is about the amount generated at once. It stays in the cache until it is
// written.
const bufferBytes = 256 << 10

// reader generates the bytes of a tensor on demand.
type reader struct {
	ctx      context.Context
	generate func(p []byte) // fills p with whole blocks
	buf      []byte         // whole blocks
	unread   []byte         // the part of buf that Read has not returned
	onRead   func(n int)    // receives the number of bytes read
}

// Read implements io.Reader. It never returns io.EOF: the writer knows how much it needs.
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

// matrixReader returns a reader of random blocks. The product of the matrix with a vector
// of mean square 1 has variance of about 1. Readers may share buffer if they are read one
// after the other. Elements of an embedding that is no output matrix have a variance of 1, like
// what each layer adds to them: otherwise all tokens would look alike to the routers.
func matrixReader(ctx context.Context, t *tensor, typ quant.Type, src source, buffer []byte, done func(int)) (io.Reader, error) {
	deviation := 1 / math.Sqrt(float64(t.cols()))
	if t.role == roleEmbed {
		deviation = 1
	}
	fill, err := newFiller(typ, deviation)
	if err != nil {
		return nil, err
	}
	buf := buffer[:len(buffer)/typ.BlockBytes()*typ.BlockBytes()]
	return &reader{ctx: ctx, generate: func(p []byte) { fill(&src, p) }, buf: buf, onRead: done}, nil
}

// vectorReader returns a reader of a float32 tensor. It calls compute on the first read.
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

// readFunc implements io.Reader with a function.
type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

// gains returns values near 1.
func gains(src source, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(1 + 0.25*src.uniform())
	}
	return out
}

// decays returns values near -1.
func decays(src source, n int) []float32 {
	out := gains(src, n)
	for i := range out {
		out[i] = -out[i]
	}
	return out
}

// biases returns values that are small compared with the products to which they are added.
func biases(src source, n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(0.1 * src.uniform())
	}
	return out
}

// router returns the rows of a router. The ranks of the experts are a random permutation,
// different in each layer. The row of rank r is scaled by (r+1)^-skew. The scores of a
// short row stay near 0, so the router seldom selects its expert, and nearly half of all
// tokens use the experts with the longest rows. With skew 0 all experts are used equally.
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
