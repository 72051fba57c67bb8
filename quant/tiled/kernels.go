package tiled

import (
	"unsafe"

	"github.com/llmrun/llmrun/quant"
)

// kernels is one path: the kernels for one instruction set. Most paths embed a
// slower path and override some of its kernels. All paths compute bit-identical
// results. Kernels have no state and do not check the shapes of their arguments.
type kernels interface {
	// name is the path's name in quant.Features.
	name() string
	// quantize quantizes the activations of one token.
	quantize(a quantizeArgs)
	// decode decodes n blocks of a tile into the panel. If it subtracts the zero
	// point from the codes, it sets p.centred.
	decode(p *panel, f *format, blocks []byte, n int)
	// mulPanel multiplies a panel with tiles of tokens: the GEMM kernel.
	mulPanel(a *kernelArgs)
	// copyResults copies results from the scratch memory to the output.
	copyResults(a *copyArgs)
	// mulSmall multiplies tiles of rows with 1 to mostSmall tokens without decoding them
	// to a panel: the GEMV and small-N GEMM kernels. It returns false if the path
	// has no such kernel for the type and width.
	mulSmall(t quant.Type, a *smallArgs) bool
	// join joins the planes of groups.
	join(kind joinKind, a joinArgs)
	// highGEMV returns the kernel that multiplies the high plane of a type with one token, nil if there is none.
	highGEMV(t quant.Type, high Plane) func(*smallArgs)
	// scores multiplies a block of 8-bit keys with a tile of queries.
	scores(a *scoreArgs, s *Scratch)
	// scores4 multiplies a block of 4-bit keys with a tile of queries.
	scores4(a *scoreArgs, s *Scratch)
}

// widePath is a path that multiplies some formats in bfloat16. It widens the
// activations once for several tiles of rows.
type widePath interface {
	// wide reports whether the path multiplies the format in bfloat16.
	wide(f *format, tokens int) bool
	// mulWide computes the sums of n tiles of rows for all tokens of a.
	mulWide(s *Scratch, t quant.Type, tiles []byte, n int, a *Activations)
}

// pairingPath is a path whose kernels read the codes of two adjacent tokens
// interleaved, eight elements of one token, then eight of the other.
type pairingPath interface {
	// pairsTokens reports whether tiles of width tokens are interleaved.
	pairsTokens(width int) bool
}

// wholeTilePath is a path with small-N kernels that take a whole tile of tokens. They prefetch weights,
// which decoding to a panel does not.
type wholeTilePath interface {
	// takesWholeTiles reports whether the type's kernel is faster with a whole tile than that of a panel.
	takesWholeTiles(t quant.Type) bool
}

// lanesPath is a path whose small-N kernels of Q6_K read Activations.lanes.
type lanesPath interface {
	readsLanes()
}

// splittingPath is a path that multiplies the magnitudes and the signs of 8-bit codes
// with large batches. Its decode stores both, so that a panel holds half as many
// groups.
type splittingPath interface {
	splits(f *format, tokens int) bool
}

// codesApart returns the distance in bytes between consecutive runs of eight codes
// of a token, in a tile of width tokens.
func codesApart(path kernels, width int) int {
	if path, ok := path.(pairingPath); ok && path.pairsTokens(width) {
		return 2 * pairElems
	}
	return pairElems
}

// kernelArgs are the arguments of a panel kernel, which multiplies groups of a
// tile of weights with tiles of tokens. All pointers are to the first group. For
// token t, row r and every group g:
//
//	sums[t][r] = fma(float32(Σ (code-zero)·x)·scales[g][r], dx[g][t], sums[t][r])
//	sums[t][r] = fma(shift[g][t], mins[g][r], sums[t][r])   with mins; zero is 0
//
// With factors, Σ is the sum over halves of factor·Σ (code-zero)·x.
type kernelArgs struct {
	sums   *float32 // [tiles][width][TileRows]; the kernel accumulates into it
	codes  *uint8   // [groups][planes][TileRows][laneBytes]
	scales *float32 // [groups][TileRows]
	mins   *float32 // [groups][TileRows]; nil if the format has none
	x      *int8    // [groups][width][GroupElems], see pairingPath
	dx     *float32 // [groups][width]
	shift  *float32 // [groups][width]
	start  *int32   // [groups][halves][width]; nil means startBits, for formats with a min
	groups int
	width  int // 1, 2, 4, 8 or 16
	halves int // 2 if each half of a group has a factor, otherwise 1
	zero   int // zero point of the format, already included in start

	factors *float32 // [groups][halves][TileRows], integers or in low-bit formats floats; nil if halves is 1

	// nibbles means that the codes are below 16, so that 16 bits hold a group's sums.
	nibbles bool
	// split means that codes are magnitudes, then signs: [groups][2][planes][TileRows][laneBytes].
	// factors then are the initial values of integer sums, int32 [groups][TileRows].
	split bool
	// centred means that the codes are signed: decode subtracted the zero point.
	centred bool
	// tiles is the number of consecutive tiles of tokens; 1 unless centred. skip is
	// the number of groups of x between the end of one tile and the next.
	tiles, skip int
	products    *int32      // scratch for integer sums [2][width][TileRows]
	config      *tileConfig // set by the AMX path
}

// tileConfig is the memory operand of LDTILECFG: rows and bytes per row of each AMX
// tile register.
type tileConfig struct {
	palette  uint8
	_        [15]uint8
	rowBytes [16]uint16
	rows     [16]uint8
}

// smallArgs are the arguments of a GEMV or small-N GEMM kernel, which multiplies
// packed tiles of weights with one tile of tokens.
type smallArgs struct {
	sums   *float32 // [tiles][width][TileRows], overwritten
	tile   *byte    // [tiles][size]
	tiles  int
	x      *int8      // [groups][width][GroupElems]
	dx     *float32   // [groups][width]
	shift  *float32   // [groups][width]
	start  *int32     // [groups][halves][width]; nil in formats with a min
	lanes  *int32     // [groups][width][halves], of a lanesPath with 2 tokens or more
	table  *[16]uint8 // decoded code of each nibble; nil unless codes have 4 bits
	blocks int        // per row
	width  int        // 1, 2, 4 or 8; on a wholeTilePath also 16
	size   int        // bytes of a tile
	panel  *panel     // scratch for decoded scales
	book   *byte      // code book of low-bit formats, see bookOf

	// inPairs sets these for kernels that process two runs of tiles at once.
	second *byte // first tile of the second run
	apart  int   // bytes from the sums of the first run to those of the second
	pairs  int   // tiles in each run
}

// each calls a kernel once per tile.
func (a *smallArgs) each(kernel func(*smallArgs)) {
	for i := range a.tiles {
		if i > 0 {
			a.tile, a.sums = step(a.tile, a.size), step(a.sums, a.width*TileRows)
		}
		kernel(a)
	}
}

// inPairs calls a kernel that processes the first and the second half of the tiles
// at once. If the number of tiles is odd, both halves contain the middle tile.
func (a *smallArgs) inPairs(kernel func(*smallArgs)) {
	a.pairs = (a.tiles + 1) / 2
	skip := a.tiles - a.pairs
	a.second, a.apart = step(a.tile, skip*a.size), skip*TileRows*4
	kernel(a)
}

// active is the path in use; tests switch it.
var active = choose(quant.Features())

// choose returns the path with the name that quant.Features returns. If the
// processor lacks a feature that this package's path of that name requires, it
// returns the fastest path that the processor supports.
func choose(name string) kernels {
	all := paths()
	for _, path := range all {
		if path.name() == name {
			return path
		}
	}
	return all[0]
}

// portable is the path in portable Go, the reference for all others.
type portable struct{}

func (portable) name() string { return "portable" }

func (portable) decode(p *panel, f *format, blocks []byte, n int) {
	size := len(blocks) / n
	for i := range n {
		p.decode(f, blocks[i*size:][:size], i*f.groups(size))
	}
}

func (portable) highGEMV(quant.Type, Plane) func(*smallArgs) { return nil }

func (portable) mulSmall(quant.Type, *smallArgs) bool { return false }

func (portable) mulPanel(a *kernelArgs) {
	sums := unsafe.Slice(a.sums, a.width*TileRows)
	codes := unsafe.Slice(a.codes, a.groups*planes*planeBytes)
	scales := unsafe.Slice(a.scales, a.groups*TileRows)
	x := unsafe.Slice(a.x, a.groups*a.width*GroupElems)
	dx := unsafe.Slice(a.dx, a.groups*a.width)
	for g := range a.groups {
		for t := range a.width {
			token := x[(g*a.width+t)*GroupElems:][:GroupElems]
			d := dx[g*a.width+t]
			for row := range TileRows {
				acc := &sums[t*TileRows+row]
				var i float32 // exact but for the last sum of two products, see lowFormat
				for h := range a.halves {
					i += float32(a.factor(g, h, row) * float32(a.sum(codes[g*planes*planeBytes:], token, g, h, t, row)))
				}
				product := i * scales[g*TileRows+row]
				if a.factors == nil {
					product += 0 // -0 becomes +0; the SIMD kernels subtract startFloat and never produce -0
				}
				*acc = quant.FMA32(product, d, *acc)
				if a.mins != nil {
					mins, shift := unsafe.Slice(a.mins, a.groups*TileRows), unsafe.Slice(a.shift, a.groups*a.width)
					*acc = quant.FMA32(shift[g*a.width+t], mins[g*TileRows+row], *acc)
				}
			}
		}
	}
}

// sum returns Σ (code-zero)·q over half h of group g, for one row and one token.
func (a *kernelArgs) sum(codes []uint8 /* of the group */, token []int8, g, h, t, row int) int32 {
	elems := GroupElems / a.halves
	i := a.startOf(g, h, t) - startBits
	if a.halves == 2 {
		i *= int32(a.zero / halfZero) // starts of halves are those of this zero point
	}
	for k := h * elems; k < (h+1)*elems; k++ {
		at := k/laneBytes*planeBytes + row*laneBytes + k%laneBytes
		i += int32(codes[at]) * int32(token[k])
	}
	return i
}

// factor returns the factor of half h of group g; 1 in formats without factors.
func (a *kernelArgs) factor(g, h, row int) float32 {
	if a.factors == nil {
		return 1
	}
	return unsafe.Slice(a.factors, a.groups*a.halves*TileRows)[(g*a.halves+h)*TileRows+row]
}

// startOf returns the initial value of the integer sum of a token's half group.
func (a *kernelArgs) startOf(g, h, t int) int32 {
	if a.start == nil {
		return startBits
	}
	return unsafe.Slice(a.start, a.groups*a.halves*a.width)[(g*a.halves+h)*a.width+t]
}

// asInt8, asInt32 and asUint16 reinterpret the memory of floats as integers.
func asInt8(f []float32) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func asInt32(f []float32) []int32 {
	return unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(f))), len(f))
}

func asUint16(f []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(f))), 2*len(f))
}

// step returns p advanced by n elements.
func step[T any](p *T, n int) *T {
	return (*T)(unsafe.Add(unsafe.Pointer(p), n*int(unsafe.Sizeof(*p))))
}
