package opencl

import (
	"errors"
	"fmt"
)

// Input is the input vector of a GEMV.
type Input struct {
	X    *Memory
	From int // first element in X
	// Op is the operation that the kernel applies to the input first. Its operands
	// begin at element Side of X, a multiple of four.
	Op   InputOp
	Side int
	Eps  float32 // for Normed: added to the mean of squares
	Head int     // for Merged: elements of a head
}

// InputOp is the operation that a GEMV applies to its input before the
// multiplication.
type InputOp int

// The operations, as kernels/common.cl numbers them.
const (
	Unchanged InputOp = iota
	// Normed divides by the root mean square and multiplies with the gains at Side.
	Normed
	// Merged merges the partial results of the attention splits. Their softmax
	// states are at Side. See kernels/attend.cl.
	Merged
)

// Output is the destination of a matmul and the operation on its sums.
type Output struct {
	Y      *Memory
	To     int // first element in Y
	Stride int // elements from one token to the next, for GEMM
	Op     OutputOp
	Factor float32 // for Add
}

// GEMV is the kernel of a matmul with one token, with its arguments set.
type GEMV struct {
	kernel        *Kernel
	global, local [1]int
}

// gemvSplits is the index of the argument with the number of attention splits.
const gemvSplits = 9

var errSide = errors.New("opencl: the operands of a GEMV's input operation are not aligned to four elements")

// NewGEMV creates the kernel for one token.
func (p *WeightMatrix) NewGEMV(in Input, out Output) (*GEMV, error) {
	if in.Side%4 != 0 {
		return nil, errSide
	}
	s := p.shape()
	if p.forcedShape != nil {
		s = *p.forcedShape
	}
	for {
		v, err := p.buildGEMV(s, in, out)
		if err != nil {
			return nil, err
		}
		most, err := v.kernel.MaxGroup()
		if err == nil && v.local[0] <= most {
			return v, nil
		}
		if err == nil { // the kernel's register use is known only after the build
			s, err = s.limitGroup(most)
		}
		if err = errors.Join(err, v.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", p.context.Info.Name, err)
		}
	}
}

// buildGEMV builds the kernel for one token with a given shape.
func (p *WeightMatrix) buildGEMV(s gemvShape, in Input, out Output) (*GEMV, error) {
	biased := flag(p.biased)
	options := fmt.Sprintf("%s -DROWS=%d -DLANES=%d -DDEEP=%d", p.options(), s.rows, s.lanes, s.depth)
	if p.Specialized {
		options += fmt.Sprintf(" -DHEIGHT=%d -DWIDTH=%d -DFROM=%d -DSOURCE=%d -DHEAD=%d -DRESULT=%d -DBIASED=%d",
			p.Rows, p.Cols, in.From, in.Op, in.Head, out.Op, biased)
	}
	args := []any{
		in.X, p.from, p.Rows, p.Cols, in.From, int(in.Op), in.Side, in.Eps, in.Head, 1,
		out.To, int(out.Op), biased, out.Factor,
	}
	if p.weights == in.X {
		options += " -DTOGETHER"
	} else {
		args = append(args, p.weights)
	}
	if p.codes != nil {
		args = append(args, p.codes)
	}
	if out.Y != in.X {
		options += " -DAPART"
		args = append(args, out.Y)
	}
	k, err := p.context.Kernel("matvec.cl", options, "matvec")
	if err != nil {
		return nil, err
	}
	if err := k.Set(args...); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	k.rename(p.Name)
	threads := s.lanes * s.rows
	return &GEMV{k, [1]int{p.groups(s) * threads}, [1]int{threads}}, nil
}

// SetSplits sets the number of attention splits in the input.
func (v *GEMV) SetSplits(n int) error { return v.kernel.SetInt(gemvSplits, n) }

// Launch starts the matmul.
func (v *GEMV) Launch() error { return v.launch(false) }

func (v *GEMV) launch(event bool) error {
	return v.kernel.context.launch(v.kernel, v.global[:], v.local[:], event)
}

// Close releases the kernel.
func (v *GEMV) Close() error { return v.kernel.Close() }

// GEMM is the kernel of a matmul with many tokens.
type GEMM struct {
	weights       *WeightMatrix
	kernel        *Kernel
	rows, tokens  int // of a tile
	from, to      int // first elements of the input and of the result
	stride, width int // elements from one row of input and result to the next
	global, local [2]int
}

// gemmThreads are the work items of a group.
const gemmThreads = 256

// The tile sizes of a GEMM: a work item computes a square of this many rows and
// tokens. Large tiles need more local memory, and a matmul large enough to keep the
// device busy.
const (
	smallTile   = 4
	largeTile   = 8
	largeMemory = 40 << 10
	tileStep    = 16
)

// NewGEMM creates the kernel for about the given number of tokens. stride is the
// number of elements from one token of the input to the next.
func (p *WeightMatrix) NewGEMM(tokens int, x *Memory, from, stride int, out Output) (*GEMM, error) {
	k, tile, err := p.buildGEMM(tokens)
	if err != nil {
		return nil, err
	}
	args := []any{
		p.weights, p.Rows, p.Cols, x, from, stride, tokens,
		out.Y, out.To, out.Stride, int(out.Op), flag(p.biased), out.Factor, p.from,
	}
	if p.codes != nil {
		args = append(args, p.codes)
	}
	if err := k.Set(args...); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	k.rename(p.Name)
	return &GEMM{
		weights: p, kernel: k, rows: tileStep * tile, tokens: tileStep * tile,
		from: from, to: out.To, stride: stride, width: out.Stride,
	}, nil
}

// buildGEMM builds the kernel and returns its tile size. It selects large tiles if
// they are faster and the driver can run them.
func (p *WeightMatrix) buildGEMM(tokens int) (k *Kernel, tile int, err error) {
	info := &p.context.Info
	tiles, side := []int{smallTile}, tileStep*largeTile
	groups := ((p.Rows + side - 1) / side) * ((tokens + side - 1) / side)
	if info.LocalMemory >= largeMemory && groups >= 2*info.ComputeUnits {
		tiles = []int{largeTile, smallTile}
	}
	most := info.MaxGroup
	if most < gemmThreads {
		tiles = nil // the device's limit bounds every kernel's
	}
	for _, tile := range tiles {
		file, options := p.context.Arithmetic.kernel()
		options = fmt.Sprintf("%s -DMR=%d -DMT=%d%s", p.options(), tile, tile, options)
		if k, err = p.context.Kernel(file, options, "matmul"); err != nil {
			return nil, 0, err
		}
		if most, err = k.MaxGroup(); err == nil && most >= gemmThreads {
			return k, tile, nil
		}
		if err = errors.Join(err, k.Close()); err != nil {
			return nil, 0, err
		}
	}
	return nil, 0, fmt.Errorf("opencl: %s: work-groups are limited to %d work items; GEMM needs %d", info.Name, most, gemmThreads)
}

// Indices of arguments that change: first elements of input and result, and the
// number of tokens.
const gemmFrom, gemmTokens, gemmTo = 4, 6, 8

// Launch starts the matmul of the first tokens.
func (m *GEMM) Launch(tokens int) error { return m.launch(0, 0, tokens, false) }

// LaunchRows starts the matmul of tokens rows, from row in of the input to row out
// of the result.
func (m *GEMM) LaunchRows(in, out, tokens int) error { return m.launch(in, out, tokens, false) }

func (m *GEMM) launch(in, out, tokens int, event bool) error {
	for _, a := range [3][2]int{{gemmFrom, m.from + in*m.stride}, {gemmTo, m.to + out*m.width}, {gemmTokens, tokens}} {
		if err := m.kernel.SetInt(a[0], a[1]); err != nil {
			return err
		}
	}
	m.global = [2]int{(m.weights.Rows + m.rows - 1) / m.rows * gemmThreads, (tokens + m.tokens - 1) / m.tokens}
	m.local = [2]int{gemmThreads, 1}
	return m.weights.context.launch(m.kernel, m.global[:], m.local[:], event)
}

// Close releases the kernel.
func (m *GEMM) Close() error { return m.kernel.Close() }
