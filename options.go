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
)

// Options are the choices that open a model. The zero value is sensible: the everyday fields
// come first, and what most programs never set is grouped behind them.
type Options struct {
	// FS is where paths are looked up; nil is the operating system. With an
	// embed.FS a program carries its model inside itself.
	FS fs.FS
	// Threads is how many threads compute; 0 means one for each fast core.
	Threads int
	// Context is the most tokens that a session may hold; 0, or more than the model was
	// made for, means as many as it was made for. Memory is taken as a session grows.
	Context int
	// Exact multiplies quantized weights with activations in float32, for measuring.
	// Otherwise activations are quantized to 8 bits first, which is several times faster.
	// Weights that are stored as floats are always multiplied in float32.
	Exact bool
	// Quantize quantizes weights that are stored as floats while they are loaded: "q8" to
	// 8 bits, which halves 16-bit floats and loses next to nothing, "q4" to 4 bits with 8
	// where it matters most, or another of [Mixes]. "" keeps them as they are.
	Quantize string
	// Adapters are LoRA adapters, directories as peft writes them, that are added to the
	// weights as they are loaded. Weights that one changes take four bytes each from then
	// on. The model must be a safetensors one.
	Adapters []string
	// Progress, if set, is called while weights are loaded. Calls do not overlap.
	Progress func(Progress)
	// Notify, if set, receives sentences for the owner: why a model was not imported
	// although Cache.Dir is set, and what else is not as expected.
	Notify func(string)

	Memory MemoryOptions // how much RAM, and what the conversation takes of it
	Cache  CacheOptions  // what is kept on flash between runs
	Device DeviceOptions // a GPU or NPU
	Lab    LabOptions    // experiments and measurements

	// program is what the program around the engine needs of Go's heap, if a budget has
	// to hold it.
	program int64
}

// countProgramHeap notes how much of the heap the program needs, where RAM limits that too.
// The system has already less to give by what the program holds.
func (o *Options) countProgramHeap() {
	if o.Memory.RAM > 0 {
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
		{"Chunk", o.Memory.Chunk, 0, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%w: %s is %d; it must lie between %d and %d", ErrOptions, f.name, f.value, f.min, f.max)
		}
	}
	if !slices.Contains([]string{"", "auto", "anon", "file"}, o.Memory.Pin) {
		return fmt.Errorf("%w: Pin is %q; it must be anon, file or auto", ErrOptions, o.Memory.Pin)
	}
	if err := o.Lab.W8A8.validate(o); err != nil {
		return err
	}
	if o.Memory.RAM < NoLimit {
		return fmt.Errorf("%w: RAM is %d", ErrOptions, o.Memory.RAM)
	}
	if o.Memory.KVRAM < 0 {
		return fmt.Errorf("%w: KVRAM is %d", ErrOptions, o.Memory.KVRAM)
	}
	if err := o.Lab.Disk.validate(); err != nil {
		return err
	}
	if o.Cache.Size < 0 {
		return fmt.Errorf("%w: CacheSize is %d", ErrOptions, o.Cache.Size)
	}
	if _, err := exec.ParseSelection(o.Memory.KVSelect); err != nil {
		return fmt.Errorf("%w: KVSelect: %w", ErrOptions, err)
	}
	if o.Memory.KV != "" {
		if _, err := kv.ParseFormat(o.Memory.KV); err != nil {
			return fmt.Errorf("%w: KV: %w", ErrOptions, err)
		}
	}
	if err := o.validateDevice(); err != nil {
		return err
	}
	if o.Lab.Trace != "" && !o.Traceable() {
		return fmt.Errorf("%w: Trace belongs to W8A8, or to a GPU or a division as Device: nothing else is traced", ErrOptions)
	}
	return nil
}

// Traceable reports whether an engine with these options does what a Trace shows.
func (o *Options) Traceable() bool {
	return o.Lab.W8A8 != nil || o.usesDevice()
}

// kvFormat returns the precision of keys and values for a model.
func (o *Options) kvFormat(f *modelfile.Files) kv.Format {
	if o.Memory.KV != "" {
		format, _ := kv.ParseFormat(o.Memory.KV) // validate has seen it
		return format
	}
	if _, onGPU := o.onGPU(); onGPU || f.Quantized() && !o.Exact {
		return kv.K8V8
	}
	return kv.F32
}

// selection returns how much new tokens look at.
func (o *Options) selection() exec.Selection {
	s, _ := exec.ParseSelection(o.Memory.KVSelect) // validate has seen it
	return s
}

// pinFile reports whether weights that stay in memory are a mapping of the file.
func (o *Options) pinFile() bool {
	return o.Memory.Pin == "file" || o.Memory.Pin != "anon" && runtime.GOOS == "android" && o.Lab.Disk == (DiskSpeed{})
}

// mapFirst reports whether weights are a mapping of the file until a copy has been
// made.
func (o *Options) mapFirst() bool { return o.Memory.Pin != "anon" && !o.pinFile() }

// sessionDir returns where sessions and prompts are kept, "" if nowhere.
func (o *Options) sessionDir() string {
	if o.Cache.KVDir != "" {
		return o.Cache.KVDir
	}
	return o.Cache.Dir
}

// kvDir returns where keys and values go for which there is no memory, "" if
// nowhere.
func (o *Options) kvDir() string {
	if o.sessionDir() == "" || o.usesDevice() {
		return ""
	}
	return vfs.Join(o.sessionDir(), "kv")
}

func (o *Options) fsys() vfs.FS {
	if o.FS == nil {
		return o.Lab.Disk.throttle(vfs.OS())
	}
	return o.Lab.Disk.throttle(vfs.FromIOFS(o.FS))
}

// Sampling says how the next token is chosen. The zero value is greedy: always
// the most likely token.
type Sampling struct {
	Temperature float32 // 0: greedy; 1: the model's own distribution
	TopK        int     // keep this many; 0: all
	TopP        float32 // keep the most likely up to this mass; 0 or 1: all
	MinP        float32 // keep those at least this many times as likely as the likeliest
	TypicalP    float32 // keep the most typical up to this mass; 0 or 1: all

	RepeatPenalty    float32 // divides positive and multiplies negative logits of seen tokens; 0 or 1: off
	PresencePenalty  float32 // subtracted once from the logit of a seen token
	FrequencyPenalty float32 // subtracted for every time the token was seen
	RepeatLastN      int     // how many tokens count as seen; 0: 64, -1: all

	LogitBias map[int32]float32 // added to the logits of these ids; -Inf forbids one
	Seed      *uint64           // of the random numbers; nil: a fresh one, which GenerationStats reports
}

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
