//go:build !noasm && (amd64 || arm64)

package quant

import "unsafe"

// flags are those of the kernels.
func (s *MatrixStep) flags() (bits int) {
	if s.Delta {
		bits = 1
	}
	if s.HasSkip {
		bits |= 2
	}
	return bits
}

// query returns the query, or something of its size if there is no output.
func (s *MatrixStep) query() *float32 {
	if s.Out == nil {
		return unsafe.SliceData(s.Key)
	}
	return unsafe.SliceData(s.Query)
}

// outAt returns where the output of a column is, nil if there is none.
func (s *MatrixStep) outAt(column int) *float32 {
	if s.Out == nil {
		return nil
	}
	return &s.Out[column]
}
