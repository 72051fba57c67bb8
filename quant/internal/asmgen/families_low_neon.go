package main

import "fmt"

// bookNEON is a kernel that decodes a format of code books, four rows at a time. Points are read one
// by one: NEON cannot gather.
//
//	R4 code book   R11 table of signs   R7-R10 sections of the tile block   R17 scratch
//	R13-R16 indices of points, R19-R22 of signs, R23-R26 bits of the four rows
type bookNEON struct {
	Name     string
	Size     int    // of a tile block
	Half     string // loads the scales of a block to V28-V31
	Narrow   bool   // points have four elements, not eight
	Signs    string // the field of lowTablesNEON with the masks of signs; empty: points are signed
	Sections []lowSection
	Scales   []string // of a group, after its codes

	row   func(row int) []string                   // loads what a row's points share
	index func(row, point int, to string) []string // of a point
	sign  func(row, pair int, to string) []string  // of the signs of eight elements
}

// lowSection is a section of words: its register, its start, and the steps after four rows and after a group.
type lowSection struct {
	Reg             string
	At, Step, Group int
}

// rowBits is the register with bits of a row.
func rowBits(row int) string { return fmt.Sprint("R", 23+row) }

func line(format string, args ...any) string { return fmt.Sprintf(format, args...) }

// Rows loads what the points of four rows share.
func (k bookNEON) Rows() (all []string) {
	for row := range 4 {
		all = append(all, k.row(row)...)
	}
	return all
}

// Point loads a point of four rows to V0-V3.
func (k bookNEON) Point(point int) (all []string) {
	for row := range 4 {
		all = append(all, k.index(row, point, fmt.Sprint("R", 13+row))...)
	}
	for row := range 4 {
		all = append(all, line("%s (R4)(R%d<<%s), F%d", pick(k.Narrow, "FMOVS", "FMOVD"), 13+row, pick(k.Narrow, "2", "3"), row))
	}
	return all
}

// Masks loads the masks of the signs of four rows to V4 and V6.
func (k bookNEON) Masks(pair int) (all []string) {
	for row := range 4 {
		all = append(all, k.sign(row, pair, fmt.Sprint("R", 19+row))...)
	}
	for row := range 4 {
		all = append(all, line("FMOVD (R11)(R%d<<3), F%d", 19+row, 4+row))
	}
	return append(all, "VZIP1 V5.D2, V4.D2, V4.D2", "VZIP1 V7.D2, V6.D2, V6.D2")
}

// byteOf loads a byte of a word of a row.
func byteOf(reg string, row, k int, to string) string {
	return line("MOVBU %d(%s), %s", 64*(k/4)+4*row+k%4, reg, to)
}

// highBits adds bits of a row above the eight bits of an index.
func highBits(row, from, n int, to string) []string {
	return []string{line("UBFX $%d, %s, $%d, R17", from, rowBits(row), n), line("ORR R17<<8, %s", to)}
}

// sevens takes the index of signs from four times seven bits.
func sevens(row, pair int, to string) []string {
	return []string{line("UBFX $%d, %s, $7, %s", 7*pair, rowBits(row), to)}
}

func halfOf(row int) []string { return []string{line("MOVHU %d(R8), %s", 2*row, rowBits(row))} }
func byteAt(row int) []string { return []string{line("MOVBU %d(R8), %s", row, rowBits(row))} }

const (
	timesEighth  = "0x3E000000"
	timesQuarter = "0x3E800000"
	timesOne     = "0x3F800000"
)

func halfAt(at int, times string) string { return line("BLOCK_SCALE(%d, %s)", at, times) }

// booksNEON are the formats of code books.
var booksNEON = []bookNEON{
	{
		Name: "IQ1S", Size: 800, Half: halfAt(0, timesEighth),
		Sections: []lowSection{{"R7", 32, 16, 0}, {"R8", 544, 8, 0}},
		Scales:   []string{"HALF_WORD_SCALES"},
		row:      halfOf,
		index: func(row, k int, to string) []string {
			return append(append([]string{byteOf("R7", row, k, to)}, highBits(row, 3*k, 3, to)...),
				line("LSR $15, %s, R17", rowBits(row)), line("ORR R17<<11, %s", to))
		},
	},
	{
		Name: "IQ1M", Size: 896, Half: "SPREAD_SCALE(768)",
		Sections: []lowSection{{"R7", 0, 16, 0}, {"R8", 512, 8, 0}, {"R9", 768, 0, 0}},
		Scales:   []string{"THREE_BIT_FACTORS", "SAME_SCALES"},
		row:      halfOf,
		index: func(row, k int, to string) []string {
			return append([]string{byteOf("R7", row, k, to)}, highBits(row, 4*k, 4, to)...)
		},
	},
	{
		Name: "IQ2XXS", Size: 1056, Half: halfAt(0, timesEighth), Signs: "even",
		Sections: []lowSection{{"R7", 32, 16, 64}},
		Scales:   []string{"WORD_SCALES(R7, 0)"},
		row:      func(row int) []string { return []string{line("MOVWU %d(R7), %s", 64+4*row, rowBits(row))} },
		index:    func(row, k int, to string) []string { return []string{byteOf("R7", row, k, to)} },
		sign:     sevens,
	},
	{
		Name: "IQ2XS", Size: 1184, Half: halfAt(0, timesEighth), Signs: "even",
		Sections: []lowSection{{"R7", 32, 16, 64}, {"R8", 1056, 0, 16}},
		Scales:   []string{"NIBBLE_FACTORS(R8)", "SAME_SCALES"},
		row:      func(int) []string { return nil },
		index: func(row, k int, to string) []string {
			return []string{
				line("MOVHU %d(R7), %s", 64*(k/2)+4*row+k%2*2, rowBits(row)),
				line("AND $511, %s, %s", rowBits(row), to),
			}
		},
		sign: func(row, _ int, to string) []string { return []string{line("LSR $9, %s, %s", rowBits(row), to)} },
	},
	{
		Name: "IQ2S", Size: 1312, Half: halfAt(0, timesEighth), Signs: "full",
		Sections: []lowSection{{"R7", 32, 16, 0}, {"R8", 1056, 4, 0}, {"R9", 1184, 0, 16}},
		Scales:   []string{"NIBBLE_FACTORS(R9)", "SAME_SCALES"},
		row:      byteAt,
		index: func(row, k int, to string) []string {
			return append([]string{byteOf("R7", row, k, to)}, highBits(row, 2*k, 2, to)...)
		},
		sign: func(row, pair int, to string) []string {
			return []string{line("MOVBU %d(R7), %s", 512+4*row+pair, to)}
		},
	},
	{
		Name: "IQ3XXS", Size: 1568, Half: halfAt(0, timesQuarter), Narrow: true, Signs: "even",
		Sections: []lowSection{{"R7", 32, 16, 64}, {"R8", 1056, 16, 0}},
		Scales:   []string{"WORD_SCALES(R8, 64)"},
		row:      func(row int) []string { return []string{line("MOVWU %d(R8), %s", 4*row, rowBits(row))} },
		index:    func(row, k int, to string) []string { return []string{byteOf("R7", row, k, to)} },
		sign:     sevens,
	},
	{
		Name: "IQ3S", Size: 1760, Half: halfAt(0, timesOne), Narrow: true, Signs: "full",
		Sections: []lowSection{{"R7", 32, 16, 64}, {"R8", 1056, 4, 0}, {"R9", 1184, 16, 0}, {"R10", 1696, 0, 0}},
		Scales:   []string{"SHARED_NIBBLE_SCALES"},
		row:      byteAt,
		index: func(row, k int, to string) []string {
			return append([]string{byteOf("R7", row, k, to)}, highBits(row, k, 1, to)...)
		},
		sign: func(row, pair int, to string) []string {
			return []string{line("MOVBU %d(R9), %s", 4*row+pair, to)}
		},
	},
}
