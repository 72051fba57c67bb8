package exec

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/llmrun/llmrun/hetero"
	"github.com/llmrun/llmrun/internal/trace"
	"github.com/llmrun/llmrun/quant/tiled"
	"github.com/llmrun/llmrun/tiering"
)

// Division has part of a model's products computed by another device, at the same
// time as the rest of them: the first rows of a matrix are multiplied here, and the
// others there. All that is no product stays here.
//
// The device's rows are in its memory and not in the model's. Logits are not those
// of this package's kernels alone: each device rounds in its own way, and how many
// tokens are read together may change who computes what.
type Division struct {
	Name   string        // of the device, for errors
	Device hetero.Device // closed with the model, also with one that cannot be loaded
	// Of says which rows of a matrix the device has. It is asked for those that are
	// Divisible; the others stay here.
	Of    func(Product) Share
	Chunk int             // most tokens in one pass that Of was made for; 0: any number
	Grain time.Duration   // see hetero.Await
	Trace *trace.Recorder // of steps; may be nil
}

// Share says which rows of a matrix another device multiplies: from a row on, which
// is rounded up to whole tiles.
type Share struct {
	// One is the first row of the device where one token is multiplied, and Many where
	// many are: with all rows of the matrix before it the device has none. Rows that
	// it has in one case only are in both memories.
	One, Many int
	// Least is how few tokens are many; fewer are multiplied like one. A device that
	// is static computes a whole chunk each time, and must have nothing of one.
	Least int
	// OneTime and ManyTime are what the product of one token and of a whole chunk is
	// predicted to take, of the two devices together.
	OneTime, ManyTime time.Duration
}

// Divisible reports whether a product can be divided. Experts, which few tokens use
// at a time, and their routers, which are small, are not.
func (p Product) Divisible() bool {
	return p.Name != routerProduct && !strings.HasPrefix(p.Name, expertProduct)
}

// Parts returns which rows of so many the device has, from and to: those of both
// cases, and before them those of one.
func (s Share) Parts(rows int) [2][2]int {
	s = s.rounded(rows)
	both := max(s.One, s.Many)
	return [2][2]int{{min(s.One, s.Many), both}, {both, rows}}
}

// many reports whether so many tokens are many.
func (s *Share) many(tokens int) bool { return tokens > 1 && tokens >= s.Least }

// first returns the first row of the device where so many tokens are multiplied.
func (s *Share) first(tokens int) int {
	if s.many(tokens) {
		return s.Many
	}
	return s.One
}

// rounded returns the share in whole tiles of the matrix.
func (s Share) rounded(rows int) Share {
	for _, first := range []*int{&s.One, &s.Many} {
		*first = min(rows, (max(0, *first)+tiled.TileRows-1)/tiled.TileRows*tiled.TileRows)
	}
	return s
}

// away is the device that has rows of a model's matrices.
type away struct {
	Division
	caps    hetero.Capabilities
	chunk   int // tokens that kernels are prepared for
	kernels []hetero.Kernel
	roles   []*DividedProduct // in the order of loading
}

// awayRows are the rows of a matrix that a device has: those that it multiplies in
// both cases, and before them those for one case only.
type awayRows struct {
	Share
	role  *DividedProduct
	parts [2]awayPart
}

// awayPart is rows that follow each other; no rows have no kernel.
type awayPart struct {
	first, rows int
	kernel      hetero.Kernel
}

// allAway reports whether another device multiplies all rows of the job's matrix.
func (j *job) allAway() bool { return j.w.away != nil && j.w.away.first(j.n) == 0 }

// here returns how many rows of the job's matrix in memory this package's kernels
// multiply.
func (j *job) here() int {
	if j.w.away != nil {
		return j.w.away.first(j.n)
	}
	return j.w.held()
}

// close closes the device of a division that no model has taken over.
func (d *Division) close() error {
	if d == nil {
		return nil
	}
	return d.Device.Close()
}

// newAway takes over the device of a division.
func newAway(d *Division, chunk int) *away {
	return &away{Division: *d, caps: d.Device.Capabilities(), chunk: chunk}
}

// predicted returns how long a product of so many tokens will take. A device that is
// static needs for its rows of any number of them what it needs for a chunk.
func (a *away) predicted(w *awayRows, tokens int) time.Duration {
	switch {
	case !w.many(tokens):
		return w.OneTime
	case a.caps.Static && w.Many < w.role.Rows:
		return w.ManyTime
	}
	return w.ManyTime * time.Duration(tokens) / time.Duration(a.chunk)
}

// attach makes a pass's memory the device's.
func (a *away) attach(frame *tiering.Frame) (*hetero.Buffer, error) {
	b := hetero.Over(frame)
	if err := a.Device.Attach(b); err != nil {
		return nil, fmt.Errorf("%s: %w", a.Name, err)
	}
	return b, nil
}

// prepare gives the device its rows of a matrix. Of raw it keeps what it says that
// it needs; inPlace is asked for memory that stays.
func (a *away) prepare(op hetero.Op, share Share, inPlace func(raw []byte) ([]byte, error)) (parts [2]awayPart, err error) {
	rowBytes := len(op.Weights) / op.Rows
	for i, rows := range share.Parts(op.Rows) {
		parts[i] = awayPart{first: rows[0], rows: rows[1] - rows[0]}
		if parts[i].rows == 0 {
			continue
		}
		part := op
		part.Rows, part.Weights = parts[i].rows, op.Weights[rows[0]*rowBytes:rows[1]*rowBytes]
		if parts[i].kernel, err = a.prepareRows(part, inPlace); err != nil {
			return parts, fmt.Errorf("%s: %w", a.Name, err)
		}
		a.kernels = append(a.kernels, parts[i].kernel)
	}
	return parts, nil
}

func (a *away) prepareRows(op hetero.Op, inPlace func(raw []byte) ([]byte, error)) (hetero.Kernel, error) {
	k, err := a.Device.Prepare(op)
	if err != nil || k.Bytes() > 0 {
		return k, err
	}
	// It reads the weights where they are, which is not where they will be.
	if err := k.Close(); err != nil {
		return nil, err
	}
	if op.Weights, err = inPlace(op.Weights); err != nil {
		return nil, err
	}
	return a.Device.Prepare(op)
}

// submit starts a product of some tokens.
func (a *away) submit(k hetero.Kernel, tokens int, x, y hetero.View) (hetero.Ticket, error) {
	if some, ok := k.(hetero.Elastic); ok && !a.caps.Static {
		return some.SubmitSome(tokens, x, y)
	}
	return k.Submit(x, y) // the rest of the chunk is whatever is there, and is not used
}

// close gives kernels and the device back.
func (a *away) close() (err error) {
	for _, k := range a.kernels {
		err = errors.Join(err, k.Close())
	}
	a.kernels = nil
	return errors.Join(err, a.Device.Close())
}
