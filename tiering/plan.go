package tiering

// Shape is what a plan needs to know of a model: how many bytes it has, and in
// which order they are used.
type Shape struct {
	// Layers are the parts of the network in the order in which a pass reads
	// them, without experts. A pass reads all of each.
	Layers []Section
	// Head is the final norm and the output matrix, which is the embedding in a
	// tied model. Decoding reads it for each token.
	Head Section
	// Unit is the largest part of a matrix that is used as a whole. A pinned part
	// ends with one, so that it may be that much larger than the plan says, and a
	// ring has room for one behind its pieces. Vectors are the bytes of norms and
	// biases, which stay in memory wherever they lie.
	Unit, Vectors int64
	// Embedding is the size of an embedding that is not the output matrix too, 0
	// in a tied model. It stays on flash and its rows, of RowBytes each, are looked
	// up.
	Embedding, RowBytes int64
	// OtherPinned is what stays in memory beside all sections: an embedding that is loaded
	// whole, or columns of matrices in another form.
	OtherPinned int64
	// Lookup is memory in which several rows of an output matrix that is the embedding
	// too are read at once, while not all of it stays; 0 where they are two.
	Lookup int64

	// Of ExpertLayers layers each has Experts experts, of which ExpertsUsed
	// work on a token. ExpertBytes is the size of the largest.
	ExpertLayers, Experts, ExpertsUsed int
	ExpertBytes                        int64

	// Keys and values of some tokens take KVFixed + tokens·KVBytesPerToken in all
	// layers, in the chosen format, tokens being rounded up to KVPageTokens.
	KVFixed, KVBytesPerToken int64
	KVPageTokens             int
	// KVSummaryPerToken is what stays in memory of every token, wherever its keys and
	// values are, for selecting what to look at.
	KVSummaryPerToken int64
	// KVUnit is the size of the largest page of a layer.
	KVUnit int64
	// Activations of a chunk of tokens take Scratch while they pass through the
	// layers, and Logits behind the last; neither is in use while the other is.
	Scratch, Logits Line
	// OpsPerToken is how many products and sums (two operations for a product
	// that is added) the layers ask for a token of a prompt. Width is how many elements
	// a token has between them.
	OpsPerToken int64
	Width       int
}

// Line is the memory that some tokens take: Fixed + tokens·PerToken.
type Line struct{ Fixed, PerToken int64 }

// At returns what so many tokens take.
func (l Line) At(tokens int) int64 { return l.Fixed + int64(tokens)*l.PerToken }

// Section is a run of bytes that are used together and lie together on flash.
type Section struct {
	Name  string
	Bytes int64
	// Granule is what the part that does not stay in memory is a multiple of, if it is
	// not all of the section; up to a Block, with which the part that stays ends.
	Granule, Block int64
}

// Rates are what a machine reaches, measured. A rate of 0 is unknown; what
// depends on it is then not predicted.
type Rates struct {
	ReadGBs     float64 // flash, with reads of the planned size
	MemGBs      float64 // weights in memory, during decode
	PrefillGops float64 // integer operations during prefill
}

// Need is what is asked of a plan, and what the program takes besides the model.
type Need struct {
	// Budget is the limit of all memory; 0 means none.
	Budget int64
	// Context is how many tokens the conversation may have. Where it is 0, the
	// plan chooses at most ContextMax.
	Context, ContextMax int
	// Chunk is the most tokens of a prompt that are computed together; 0 means
	// DefaultChunk. The plan takes fewer where memory is scarce.
	Chunk int
	// Code and Heap are the memory of the program itself.
	Code, Heap int64
	// Piece is the size of one read; 0 means what suits the ring.
	Piece int64
	// KVBytesLow is what keys and values of a token would take in the most compact
	// format, for a refusal to say whether that would fit; 0 means that it is the
	// one chosen.
	KVBytesLow int64
	// KVCold says that keys and values may go to flash. KVHot is then the most
	// memory that they may take; 0 leaves it to the plan.
	KVCold bool
	KVHot  int64
}

// Plan assigns the memory budget to the parts of a model. The root package's Plan is its
// public form, with the JSON names.
type Plan struct {
	Budget int64  // 0 = unlimited
	By     Ledger // the most that is held for each purpose

	Context, Chunk int // tokens

	// Pinned is how many bytes of each layer stay in memory, counted from the layer's
	// start; every pass streams the rest through the ring. HeadPinned is the same for
	// the output head.
	Pinned     []int64
	HeadPinned int64
	// Ring is the size of the ring buffer for streamed weights, a multiple of Piece, the
	// size of one read. It is 0 if nothing is streamed. The ring needs one more unit,
	// which By includes.
	Ring, Piece int64
	// Lookup is the buffer for the embedding rows of a prompt when a tied head is not
	// fully in memory; 0 if it is.
	Lookup int64

	// KVHot is the limit of keys and values in memory; older pages go to flash. KVRing is
	// the buffer in which they are read back. Both are 0 if a full context fits. KVCold is
	// how many bytes of a full context are on flash; each token and each prefill chunk
	// reads all of them.
	KVHot, KVRing, KVCold int64
	ExpertSlots           int // experts that fit in memory, over all layers

	// StreamedPerToken and StreamedPerChunk are the bytes that one decoded token and one
	// prefill chunk read from flash. They assume that the router uses all experts equally
	// often.
	StreamedPerToken, StreamedPerChunk int64

	// The predicted speeds are in tokens per second at the start of a conversation. They
	// are 0 where one of the Rates is unknown.
	Rates                             Rates
	PredictedPrefill, PredictedDecode float64
}

// Resident reports whether nothing but rows of an embedding is read from flash
// while the model runs.
func (p *Plan) Resident() bool { return p.Ring == 0 && p.StreamedPerToken == 0 }

// Total returns what will be held at most.
func (p *Plan) Total() int64 { return p.By.Total() }
