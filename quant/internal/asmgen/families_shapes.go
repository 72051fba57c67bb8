package main

import "fmt"

// shapeKernel is the inner loop of a GEMM kernel in one shape of the register tile.
type shapeKernel struct {
	Wide, Spread    bool // registers of 512 bits; a scale for each register of codes
	Vectors, Tokens int  // registers of codes, and tokens
}

// shapeOutputs are the files with the shapes.
func shapeOutputs() []output {
	all := shapeKernels()
	return []output{
		{"limits/shapes_amd64.s", "shapes_amd64.s.tmpl", all},
		{"limits/shapes_amd64.go", "shapes_amd64.go.tmpl", all},
	}
}

// shapeKernels lists the shapes: registers of codes, and tokens.
func shapeKernels() (all []shapeKernel) {
	for _, s := range []struct {
		wide, spread bool
		vectors      int
		tokens       []int
	}{
		{vectors: 1, tokens: []int{1, 2, 4, 8}},
		{vectors: 2, tokens: []int{1, 2, 4, 6}},
		{vectors: 4, tokens: []int{1, 2}},
		{wide: true, vectors: 1, tokens: []int{1, 2, 4, 8, 16}},
		{wide: true, vectors: 2, tokens: []int{2, 4, 8}},
		{wide: true, vectors: 4, tokens: []int{2, 4}},
		{spread: true, vectors: 1, tokens: []int{8}},
		{spread: true, vectors: 2, tokens: []int{4}},
		{wide: true, spread: true, vectors: 1, tokens: []int{8}},
		{wide: true, spread: true, vectors: 2, tokens: []int{4}},
	} {
		for _, tokens := range s.tokens {
			all = append(all, shapeKernel{s.wide, s.spread, s.vectors, tokens})
		}
	}
	return all
}

// temps is the number of registers for intermediate results.
func (k shapeKernel) temps() int { return pick(k.Wide, k.Vectors, 1) }

// Name is that of the function, Bytes the size of a register, Rows those of all registers of codes.
func (k shapeKernel) Name() string {
	return fmt.Sprintf("%s%dx%d%s", pick(k.Spread, "spread", "shape"), k.Rows(), k.Tokens, pick(k.Wide, "AVX512", "AVX2"))
}

// Macro is the name of what multiplies a plane.
func (k shapeKernel) Macro() string { return "PLANE_" + k.Name() }

func (k shapeKernel) Bytes() int { return pick(k.Wide, 64, 32) }
func (k shapeKernel) Rows() int  { return k.Vectors * k.Bytes() / 4 }

// Reg is the n-th register. Sum, Code, Token, Scale and Temp are registers by use.
func (k shapeKernel) Reg(n int) string        { return fmt.Sprint(pick(k.Wide, "Z", "Y"), n) }
func (k shapeKernel) Sum(token, r int) string { return k.Reg(token*k.Vectors + r) }
func (k shapeKernel) Code(r int) string       { return k.Reg(k.Vectors*k.Tokens + r) }
func (k shapeKernel) Temp(r int) string {
	return k.Reg(k.Vectors*(k.Tokens+1) + r%k.temps())
}
func (k shapeKernel) Token() string      { return k.Reg(k.Vectors*(k.Tokens+1) + k.temps()) }
func (k shapeKernel) Scale(r int) string { return k.Reg(k.Vectors*(k.Tokens+1) + k.temps() + 1 + r) }

// D and Whole end the names of instructions that have a form for 512 bits.
func (k shapeKernel) D() string     { return pick(k.Wide, "D", "") }
func (k shapeKernel) Whole() string { return pick(k.Wide, "32", "") }
