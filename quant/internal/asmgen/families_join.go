package main

import "fmt"

// joinKernels join the planes of codes with the registers of one instruction set.
type joinKernels struct {
	ISA    string
	Vector string // the kind of a register
	Width  int    // of a register
	Joins  []planeJoin
}

// planeJoin describes how the codes of a group follow from the bytes of its planes.
type planeJoin struct {
	Name, Doc       string
	HighBytes, Size int // of the codes in the high plane, and of the whole codes
	Bytes           int // outputs and loads of as many bytes are adjacent
	Masks           []string
	Loads           []planeLoad
	Outputs         []planeOutput
}

// planeLoad is where bits of codes are; the base is SI for the high plane, BX for the low one.
type planeLoad struct {
	At   int
	Base string
}

// planeOutput is a sum of shifted bits: those of the first term where no mask is set.
type planeOutput struct {
	At    int
	Terms []planeTerm
}

// planeTerm is a load, shifted left (negative: right). Mask is the number of the mask of its bits.
type planeTerm struct{ Load, Shift, Mask int }

const highBase, lowBase = "(SI)", "(BX)"

// planeJoins are the ways in which codes are in two planes; see the functions of planes.go that split them.
var planeJoins = []planeJoin{joinBytes(), joinThree(), joinTwo()}

// joinBytes joins nibbles to bytes.
func joinBytes() planeJoin {
	return planeJoin{
		Name: "Bytes", Doc: "High nibbles and low nibbles of 8-bit codes.", HighBytes: 256, Size: 512, Bytes: 256,
		Masks: []string{"0x0F0F0F0F"},
		Loads: []planeLoad{{0, highBase}, {0, lowBase}},
		Outputs: []planeOutput{
			{0, []planeTerm{{Load: 0, Shift: 4}, {Load: 1}}},
			{256, []planeTerm{{Load: 0}, {Load: 1, Shift: -4}}},
		},
	}
}

// joinThree joins three bits and one bit to nibbles.
func joinThree() planeJoin {
	j := planeJoin{
		Name: "Three", Doc: "Pairs of bits and a bit above them, and the lowest bit of nibbles.", HighBytes: 192, Size: 256, Bytes: 64,
		Masks: []string{"0x88888888", "0x11111111"},
		Loads: []planeLoad{{0, highBase}, {64, highBase}, {128, highBase}, {0, lowBase}},
	}
	for p := range 4 {
		j.Outputs = append(j.Outputs, planeOutput{64 * p, []planeTerm{
			{Load: p / 2, Shift: 1 - p%2*2}, {Load: 2, Shift: 3 - p}, {Load: 3, Shift: -p, Mask: 1},
		}})
	}
	return j
}

// joinTwo joins two bits and two bits to nibbles.
func joinTwo() planeJoin {
	j := planeJoin{
		Name: "Two", Doc: "Pairs of bits, and the pairs below them.", HighBytes: 128, Size: 256, Bytes: 64,
		Masks: []string{"0x33333333"},
		Loads: []planeLoad{{0, highBase}, {64, highBase}, {0, lowBase}, {64, lowBase}},
	}
	for p := range 4 {
		j.Outputs = append(j.Outputs, planeOutput{64 * p, []planeTerm{
			{Load: p / 2, Shift: 2 - p%2*2}, {Load: 2 + p/2, Shift: -p % 2 * 2},
		}})
	}
	return j
}

// Reg is the n-th register, Load the instruction that moves one from and to memory.
func (k joinKernels) Reg(n int) string { return fmt.Sprint(k.Vector, n) }
func (k joinKernels) Load() string     { return pick(k.Width == 64, "VMOVDQU32", "VMOVDQU") }

// Base is a register of arm64 for one of amd64.
func (joinKernels) Base(base string) string { return pick(base == highBase, "R1", "R2") }

// Steps are the offsets of registers in n bytes.
func (k joinKernels) Steps(n int) (all []int) {
	for at := 0; at < n; at += k.Width {
		all = append(all, at)
	}
	return all
}

// Shift moves the bits of a term to register to. On amd64 bits of neighbouring bytes come along, which
// the masks exclude.
func (k joinKernels) Shift(t planeTerm, to int) string {
	left, n := t.Shift > 0, max(t.Shift, -t.Shift)
	if k.Vector == "V" {
		switch {
		case n == 0:
			return fmt.Sprintf("VORR V%d.B16, V%d.B16, V%d.B16", t.Load, t.Load, to)
		default:
			return fmt.Sprintf("%s $%d, V%d.B16, V%d.B16", pick(left, "VSHL", "VUSHR"), n, t.Load, to)
		}
	}
	if n == 0 {
		return fmt.Sprintf("%s %s, %s", pick(k.Width == 64, "VMOVDQA32", "VMOVDQA"), k.Reg(t.Load), k.Reg(to))
	}
	return fmt.Sprintf("%s $%d, %s, %s", pick(left, "VPSLLW", "VPSRLW"), n, k.Reg(t.Load), k.Reg(to))
}

// Combine replaces bits of register 8 by those of the following terms where their masks are set.
func (k joinKernels) Combine(o planeOutput) (all []string) {
	for i, t := range o.Terms[1:] {
		from := 9 + i
		switch {
		case k.Vector == "V":
			all = append(all, fmt.Sprintf("VBIT V%d.B16, V%d.B16, V8.B16", 31-t.Mask, from))
		case k.Width == 64: // where the mask is set the second, elsewhere the first
			all = append(all, fmt.Sprintf("VPTERNLOGD $0xD8, Z%d, Z%d, Z8", 15-t.Mask, from))
		default:
			all = append(all, fmt.Sprintf("VPAND Y%d, Y%d, Y%d", 15-t.Mask, from, from),
				fmt.Sprintf("VPANDN Y8, Y%d, Y8", 15-t.Mask), fmt.Sprintf("VPOR Y%d, Y8, Y8", from))
		}
	}
	return all
}
