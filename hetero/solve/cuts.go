package solve

import (
	"slices"
	"time"

	"github.com/llmrun/llmrun/hetero"
)

// Cut is a kind of split.
type Cut uint8

// The kinds of splits in HeteroLLM.
const (
	None          Cut = iota // one device computes the whole matmul
	Row                      // the rows of the weights are split
	Sequence                 // one piece of a standard length in tokens, and the rest
	MultiSequence            // several pieces of standard lengths, and the rest
	Hybrid                   // a row split of pieces with standard lengths, padding or a rest of tokens
)

// String returns the name that tables show.
func (c Cut) String() string {
	return [...]string{"none", "row", "sequence", "multi-sequence", "hybrid"}[c]
}

// Piece is the part of a matmul that one kernel of a device computes.
type Piece struct {
	Device        int
	Token, Tokens int // first token and number of tokens
	Padded        int // tokens that the kernel is prepared for, at least Tokens
	Row, Rows     int // first row of the weights and number of rows
}

// Split is a split matmul: its pieces compute every token and row exactly once.
type Split struct {
	Cut      Cut
	Pieces   []Piece
	Streamed bool          // the operand order, see hetero.Op
	Time     time.Duration // predicted
}

// PaddedTokens returns the number of tokens that the operands need memory for,
// including padding.
func (s *Split) PaddedTokens() int {
	room := 0
	for _, p := range s.Pieces {
		room = max(room, p.Token+p.Padded)
	}
	return room
}

// Op returns the matmul of a piece.
func (p Piece) Op(op hetero.Op) hetero.Op {
	op.Tokens, op.Rows = p.Padded, p.Rows
	if op.Weights != nil {
		bytes := len(op.Weights) / max(1, rowsOf(op))
		op.Weights = op.Weights[p.Row*bytes:][:p.Rows*bytes]
	}
	return op
}

func rowsOf(op hetero.Op) int {
	bytes, err := op.Type.RowBytes(op.Cols)
	if err != nil || bytes == 0 {
		return 1
	}
	return len(op.Weights) / bytes
}

// Steps restrict the splits. The time of a device grows in steps of rows and tokens,
// so splits between the steps are not faster.
type Steps struct {
	Rows    int   // a row split has multiples of this number of rows; 256 in HeteroLLM
	Tokens  int   // dynamic devices get multiples of this number of tokens; 32 in HeteroLLM
	Lengths []int // numbers of tokens for which static devices have kernels, ascending
}

// DefaultSteps are those of HeteroLLM. Besides these lengths there is a kernel for
// one token.
var DefaultSteps = Steps{Rows: 256, Tokens: 32, Lengths: []int{32, 64, 128, 256, 512, 1024}}

// lengths decomposes tokens into standard lengths, the largest first; the last may
// be padded. One token has its own kernel.
func (s *Steps) lengths(tokens int) []int {
	if tokens == 1 {
		return []int{1}
	}
	var list []int
	for tokens > 0 {
		n := s.Lengths[0]
		for _, l := range s.Lengths {
			if l <= tokens {
				n = l
			}
		}
		list = append(list, n)
		tokens -= n
	}
	return list
}

// padded returns the shortest standard length of at least tokens, or 0.
func (s *Steps) padded(tokens int) int {
	if tokens == 1 {
		return 1
	}
	if i := slices.IndexFunc(s.Lengths, func(l int) bool { return l >= tokens }); i >= 0 {
		return s.Lengths[i]
	}
	return 0
}

// PaddedTokens returns the number of tokens that the operands of a matmul need
// memory for in any split, including padding.
func (s *Steps) PaddedTokens(tokens int) int {
	room := 0
	for _, n := range s.lengths(tokens) {
		room += n
	}
	return max(room, s.padded(tokens))
}

// Cuts returns the splits of a matmul between device 0, which accepts any number of
// tokens, and device 1. They include the two splits that use a single device.
func (s *Steps) Cuts(op hetero.Op, static bool) []Split {
	splits := []Split{{Pieces: []Piece{{0, 0, op.Tokens, op.Tokens, 0, op.Rows}}}}
	for _, run := range s.runs(op.Tokens, static) {
		splits = append(splits, s.withRows(op, run)...)
	}
	return splits
}

// runs returns the sequences of kernel lengths that device 1 may run, from the
// first token on.
func (s *Steps) runs(tokens int, static bool) [][]int {
	var list [][]int
	if !static {
		for n := s.Tokens; n < tokens; n += s.Tokens {
			list = append(list, []int{n})
		}
		return append(list, []int{tokens})
	}
	all := s.lengths(tokens)
	for n := 1; n <= len(all); n++ {
		list = append(list, all[:n])
	}
	if p := s.padded(tokens); p > 0 && !slices.ContainsFunc(list, func(run []int) bool { return len(run) == 1 && run[0] == p }) {
		list = append(list, []int{p})
	}
	return list
}

// withRows combines a run of token lengths with every row split.
func (s *Steps) withRows(op hetero.Op, run []int) []Split {
	var splits []Split
	for rows := s.Rows; ; rows += s.Rows {
		rows = min(rows, op.Rows)
		var pieces []Piece
		at := 0
		for _, n := range run {
			pieces = append(pieces, Piece{1, at, min(n, op.Tokens-at), n, 0, rows})
			at += n
		}
		covered := min(at, op.Tokens)
		if rows < op.Rows {
			pieces = append(pieces, Piece{0, 0, covered, covered, rows, op.Rows - rows})
		}
		if covered < op.Tokens {
			pieces = append(pieces, Piece{0, covered, op.Tokens - covered, op.Tokens - covered, 0, op.Rows})
		}
		cut := None
		switch {
		case rows < op.Rows && (covered < op.Tokens || at > op.Tokens || len(run) > 1):
			cut = Hybrid
		case rows < op.Rows:
			cut = Row
		case covered < op.Tokens && len(run) > 1:
			cut = MultiSequence
		case covered < op.Tokens:
			cut = Sequence
		}
		splits = append(splits, Split{Cut: cut, Pieces: pieces})
		if rows == op.Rows {
			return splits
		}
	}
}
