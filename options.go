package llmrun

import (
	"fmt"
	"io/fs"
	"runtime"
	"slices"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
	"github.com/llmrun/llmrun/text/sample"
)

// Options are the choices of who opens a model. The zero value is sensible.
type Options struct {
	// FS is where paths are looked up; nil is the operating system. With an
	// embed.FS a program carries its model inside itself.
	FS fs.FS
	// Threads is how many threads compute; 0 means one for each fast core.
	Threads int
	// Context is how many tokens a session may hold at most; 0, or more than
	// the model was made for, means as many as it was made for. Memory is taken
	// as a session grows, not beforehand.
	Context int
	// KV is the precision in which keys and values are kept: "f32"; "f16", half of
	// that; "k8v8", a quarter, with 8 bits an element; "k8f8", as much, with values
	// in 8-bit floats; or "k4v8", a fifth, with 4 bits for keys. "" means k8v8 for a model with
	// quantized weights, unless Exact is set, and f32 for others.
	KV string
	// KVSelect says how much of a long context a new token looks at. "" or "exact"
	// is all of it. A fraction such as "0.1" is that share, in each layer, of all
	// but its beginning and end: what summaries of the keys, which take a
	// sixteenth of the memory of k8v8, show to matter most. "auto" chooses how much.
	// Prompts of more than a few tokens are always read exactly. Answers are not
	// quite those of "exact".
	KVSelect string
	// Chunk is how many tokens of a prompt are computed together; 0 means 512,
	// or fewer where memory is scarce. Larger chunks need more scratch memory. The
	// answer is the same.
	Chunk int
	// Exact multiplies quantized weights with activations in float32, for
	// measuring. Otherwise activations are rounded to 8 bits first, as most
	// engines do, which is several times faster. Weights that are stored as
	// floats are always multiplied in float32.
	Exact bool
	// Adapters are LoRA adapters, directories as peft writes them, that are
	// added to the weights as they are loaded. Weights that one changes take
	// four bytes each from then on. The model must be a safetensors one.
	Adapters []string
	// Quantize rounds weights that are stored as floats while they are loaded:
	// "q8" to 8 bits, which takes half the memory of 16-bit floats and loses
	// next to nothing, "q4" to 4 bits with 8 where it matters most, or another of
	// [Mixes]. "" keeps them as they are.
	Quantize string
	// W8A8, if set, multiplies the matrices of layers as neural processors do: weights
	// of 8 bits with one scale for a row, activations of 8 bits with one scale for all
	// of an input, and what lies beyond that scale, the outliers, in floats beside
	// them. It needs a calibration of the model, see [Calibrate]. Experts are left
	// out. All weights stay in memory. Of the integers a Device such as cpu+npu may have
	// rows, but not a GPU, which rounds in its own way.
	W8A8 *W8A8
	// Trace, if set, is a file for a trace in Chrome's format, which is written when
	// the engine is closed: when each thread worked at which half of the products of
	// W8A8, or what a GPU, or the two sides of a division, did when and what was waited
	// for. It takes time.
	Trace string
	// CacheDir, if set, is a directory where a model with quantized weights is
	// imported to when it is first used, in the form in which it loads fastest;
	// see Import. "" writes nothing to the disk. Models whose weights are changed
	// while loading, or used exactly, are read as they are.
	CacheDir string
	// CacheSize bounds the bytes in CacheDir; 0 means 32 GiB, or a third of what
	// is free on the disk where that is less. What was not used for longest goes
	// first.
	CacheSize int64
	// NoKVCache keeps nothing of prompts and looks for none. Sessions with a name
	// are kept all the same.
	NoKVCache bool
	// ImportProgress, if set, is called while a model is imported.
	ImportProgress func(Progress)
	// Notice, if set, is told in a sentence why a model was not imported although
	// CacheDir is set, and what else is not as the owner may expect.
	Notice func(string)
	// Progress, if set, is called while weights are loaded. Calls do not
	// overlap.
	Progress func(Progress)
	// RAM is the most memory, in bytes, that the engine and the program around it
	// may take, code included; see [ParseMemory]. 0 means what the system has to
	// give, [AvailableMemory], and NoLimit whatever is needed. A model that does
	// not fit is read from flash while it is used: that needs a pack, so CacheDir
	// or a path to one. The answer is the same. What cannot fit at all is refused
	// with a [*MinimumError] before anything is loaded.
	//
	// With a limit given here, what the program has on Go's heap when it opens the
	// engine counts, one and a half times, and Go's own memory limit is set as well
	// while the engine is open. A program whose heap grows by much afterwards calls
	// [Engine.SetBudget] again, or debug.SetMemoryLimit, which then stays. Of engines
	// that are open together each has a budget of its own.
	RAM int64
	// KVDir is a directory for keys and values. "" means CacheDir; with neither, a
	// conversation is as long as memory allows and nothing of it is kept.
	//
	// Those for which there is no memory go to a file in it that nobody else sees and
	// that is gone when the engine is closed. A conversation is then as long as the
	// model and the disk allow, and the answer is the same.
	//
	// Sessions with a name are kept there, see [Session.Save], and what was read of
	// prompts: one that begins like an earlier one, in any session or process, is read
	// on from where they differ. What takes 512 tokens or more is kept at the end of a
	// generation, also of one that is interrupted while it reads, and of longer texts
	// every 4096 tokens. A quarter of CacheSize bounds it; what was not used for longest
	// goes first, but for what sessions with a name need.
	KVDir string
	// KVRAM is the most memory for keys and values while older ones can go to
	// KVDir. 0 leaves it to the plan: all of them stay where there is room, and
	// otherwise weights come first.
	KVRAM int64
	// WatchPressure makes the engine give memory back while the system is short of
	// it, and take it again, never more than RAM, when that is over. On Linux and
	// Android it looks at pressure stall information, at limits of control groups
	// and at how much memory is available; elsewhere it does nothing.
	WatchPressure bool
	// Pin says how weights of a pack stay in memory: "anon" as a copy, the fastest,
	// "file" as a mapping of the file, which opens faster when the system has it in
	// its page cache and counts as memory that the system can take back, or
	// "auto", which is "file" on Android, where copies get a program killed, and
	// elsewhere "anon"; but if the system has all of the file in its page cache and
	// all weights stay in memory, the copy is made behind the first token, which comes
	// from a mapping. "" is "auto".
	Pin string
	// Disk makes the model's files as slow as on another device, for experiments:
	// how fast a model would be on a phone's flash. Files that are slowed down
	// cannot be mapped, see Pin. What an import writes is slowed down as well.
	Disk DiskSpeed
	// Device is what computes: "" or "cpu"; "gpu", the first GPU that has an OpenCL
	// driver; or "gpu:" and part of a device's name. It needs a program that was built
	// with the tag gpu, and one of the families whose layers are like llama's. Weights,
	// and keys and values in k8v8, are in the device's memory then; nothing is imported,
	// and of a session only its text is kept, to be read again. Answers differ from those of the CPU where two tokens are about
	// as likely. Of a model that does not fit there the CPU computes the first layers,
	// see GPULayers, whose weights stay in the machine's memory.
	//
	// "cpu+gpu", "cpu+npu" or "cpu+" and a device's name divides each matrix product
	// between the CPU and the device, at the same time, as is fastest by what was
	// measured of both; what is in CacheDir of that is used, and what is missing is
	// measured and kept there. The first time, whole passes are timed as well, for which
	// the model is loaded two or three times: prompts, or single tokens, that do not
	// gain are left to the CPU, and Notice is told. All that is no product is computed on the CPU, so that
	// every family can be divided. Weights are where they are used, in part.
	Device string
	// GPULayers is how many of the model's last layers a GPU as Device computes, with
	// the output matrix; more than the model has are all. 0 means as many as there is
	// room for, beside keys and values of Context tokens: where that is not set, of as
	// many as cost no layer, and at least 4096. See [Engine.Placement].
	GPULayers int
	// DeviceShare, if set, is how much of a product's time the other device of a
	// division may be busy, for others who need it, such as the screen of a phone:
	// 0.3 is 30 %.
	DeviceShare float64
	// DeviceMemory, if set, is how many bytes of a GPU's or NPU's memory may be taken:
	// drivers of NPUs do not say how few they address, and others may need a GPU's.
	// Of a division those matrices stay with the processor that then gain least, of a
	// model on a GPU the first layers.
	DeviceMemory int64
	// DeviceProgress, if set, is called while devices are measured for a division,
	// with the number of products that have been and that may have to be.
	DeviceProgress func(done, total int)
	// Measure asks for predictions of speed in [Engine.Memory]. It takes a second
	// when nothing is known about the machine yet. Of another Device than the CPU
	// nothing is predicted.
	Measure bool

	// program is what the program around the engine needs of Go's heap, if a budget has
	// to hold it.
	program int64
}

// countProgram notes how much of the heap the program needs, where RAM limits that too.
// The system has already less to give by what the program holds.
func (o *Options) countProgram() {
	if o.RAM > 0 {
		o.program = programHeap(nil, 0)
	}
}

// NoLimit as Options.RAM takes as much memory as is needed.
const NoLimit = -1

// Progress says how far loading has come, in bytes.
type Progress struct{ Done, Total int64 }

func (o *Options) validate() error {
	for _, f := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"Threads", o.Threads, 0, 1024},
		{"Context", o.Context, 0, 1 << 28},
		{"Chunk", o.Chunk, 0, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%w: %s is %d; it must lie between %d and %d", ErrOptions, f.name, f.value, f.min, f.max)
		}
	}
	if !slices.Contains([]string{"", "auto", "anon", "file"}, o.Pin) {
		return fmt.Errorf("%w: Pin is %q; it must be anon, file or auto", ErrOptions, o.Pin)
	}
	if err := o.W8A8.validate(o); err != nil {
		return err
	}
	if o.RAM < NoLimit {
		return fmt.Errorf("%w: RAM is %d", ErrOptions, o.RAM)
	}
	if o.KVRAM < 0 {
		return fmt.Errorf("%w: KVRAM is %d", ErrOptions, o.KVRAM)
	}
	if err := o.Disk.validate(); err != nil {
		return err
	}
	if o.CacheSize < 0 {
		return fmt.Errorf("%w: CacheSize is %d", ErrOptions, o.CacheSize)
	}
	if _, err := exec.ParseSelection(o.KVSelect); err != nil {
		return fmt.Errorf("%w: KVSelect: %w", ErrOptions, err)
	}
	if o.KV != "" {
		if _, err := kv.ParseFormat(o.KV); err != nil {
			return fmt.Errorf("%w: KV: %w", ErrOptions, err)
		}
	}
	if err := o.validateDevice(); err != nil {
		return err
	}
	if o.Trace != "" && !o.Traceable() {
		return fmt.Errorf("%w: Trace belongs to W8A8, or to a GPU or a division as Device: nothing else is traced", ErrOptions)
	}
	return nil
}

// Traceable reports whether an engine with these options does what a Trace shows.
func (o *Options) Traceable() bool {
	return o.W8A8 != nil || o.apart()
}

// kvFormat returns the precision of keys and values for a model.
func (o *Options) kvFormat(f *modelfile.Files) kv.Format {
	if o.KV != "" {
		format, _ := kv.ParseFormat(o.KV) // validate has seen it
		return format
	}
	if _, onGPU := o.onGPU(); onGPU || f.Quantized() && !o.Exact {
		return kv.K8V8
	}
	return kv.F32
}

// selection returns how much new tokens look at.
func (o *Options) selection() exec.Selection {
	s, _ := exec.ParseSelection(o.KVSelect) // validate has seen it
	return s
}

// pinFile reports whether weights that stay in memory are a mapping of the file.
func (o *Options) pinFile() bool {
	return o.Pin == "file" || o.Pin != "anon" && runtime.GOOS == "android" && o.Disk == (DiskSpeed{})
}

// mapFirst reports whether weights are a mapping of the file until a copy has been
// made.
func (o *Options) mapFirst() bool { return o.Pin != "anon" && !o.pinFile() }

// keepDir returns where sessions and prompts are kept, "" if nowhere.
func (o *Options) keepDir() string {
	if o.KVDir != "" {
		return o.KVDir
	}
	return o.CacheDir
}

// kvDir returns where keys and values go for which there is no memory, "" if
// nowhere.
func (o *Options) kvDir() string {
	if o.keepDir() == "" || o.apart() {
		return ""
	}
	return vfs.Join(o.keepDir(), "kv")
}

func (o *Options) fsys() vfs.FS {
	if o.FS == nil {
		return o.Disk.slow(vfs.OS())
	}
	return o.Disk.slow(vfs.FromIOFS(o.FS))
}

// Sampling says how the next token is chosen. The zero value is greedy: always
// the most likely token.
type Sampling = sample.Params

// GenerateOptions are the choices for one generation. The zero value is greedy
// and goes on until the model ends its text or the context is full, see Overflow.
type GenerateOptions struct {
	MaxTokens int      // most tokens to generate; 0 = no limit
	Sampling  Sampling // how tokens are chosen
	Stop      []string // texts that end the generation; they are not part of it
	IgnoreEOS bool     // go on behind the model's own end
	// ParseSpecial lets special tokens that are spelled out in a prompt, such
	// as <|im_end|>, stand for themselves. Without it they are plain text, so
	// that a document cannot pose as the conversation around it. The text of a
	// chat's messages is always plain.
	ParseSpecial bool
	// Overflow says what happens when the session's text reaches its Limit:
	// OverflowStop, which "" means, or OverflowSlide.
	Overflow string
	// OnSlide, if set, is told how many tokens stay and how many are forgotten
	// whenever OverflowSlide forgets old text.
	OnSlide func(kept, forgotten int)
	// Chat is what Chat and ChatMessages give to the model's template besides
	// the messages.
	Chat ChatOptions
	// OnPrefill, if set, is called while the prompt is read, with the number
	// of its tokens that have been and that all are.
	OnPrefill func(done, total int)
}
