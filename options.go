package llmrun

import (
	"fmt"
	"io/fs"
	"runtime"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/store/vfs"
)

// Options configure an engine. The zero value suits most programs. The direct fields are the
// ones that programs set most often; the others are grouped.
type Options struct {
	// FS is the file system that holds the model; nil means the operating system's. With an
	// embed.FS, a program can contain its model.
	FS fs.FS
	// Threads is the number of worker threads; 0 means one for each performance core.
	Threads int
	// Context is the most tokens of a session. 0, or a value above the model's limit, means
	// the model's limit. The engine allocates memory only as sessions grow.
	Context int
	// Exact multiplies quantized weights with float32 activations, for measurements. Without
	// it, the engine quantizes activations to 8 bits first, which is several times faster.
	// Float weights always use float32 activations.
	Exact bool
	// Quantize quantizes float weights while they are loaded: "q8" to 8 bits, with half the
	// size of 16-bit floats and next to no loss; "q4" to 4 bits, with 8 bits for the most
	// sensitive weights; or another name from [Mixes]. "" loads the weights as they are
	// stored.
	Quantize string
	// Adapters are directories of LoRA adapters in peft's format. The engine merges them into
	// the weights while it loads them; the merged weights take four bytes each. The model
	// must be in safetensors format.
	Adapters []string
	// Progress, if set, is called while weights are loaded. Calls do not overlap.
	Progress func(Progress)
	// Notify, if set, receives messages for the user, one sentence each, for example why the
	// engine did not import the model although Cache.Dir is set.
	Notify func(string)

	Memory MemoryOptions // memory budget, keys and values
	Cache  CacheOptions  // data on disk between runs
	Device DeviceOptions // GPU or NPU
	Lab    LabOptions    // experiments and measurements

	// program is the Go heap that the program needs beside the engine, if RAM limits it.
	program int64
}

// countProgramHeap measures the Go heap of the program if Memory.RAM is set. If the limit is
// what the system has available, the heap in use is already subtracted.
func (o *Options) countProgramHeap() {
	if o.Memory.RAM > 0 {
		o.program = programHeap(nil, 0)
	}
}

// NoLimit as MemoryOptions.RAM removes the limit.
const NoLimit = -1

// Progress is the progress of an operation, in bytes or, where stated, in tokens.
type Progress struct{ Done, Total int64 }

// validate returns an ErrOptions for the first field that is out of range or conflicts with
// another one.
func (o *Options) validate() error {
	for _, f := range []struct {
		name     string
		value    int
		min, max int
	}{
		{"Threads", o.Threads, 0, 1024},
		{"Context", o.Context, 0, 1 << 28},
		{"Memory.Chunk", o.Memory.Chunk, 0, 1 << 16},
	} {
		if f.value < f.min || f.value > f.max {
			return fmt.Errorf("%w: %s is %d; it must be between %d and %d", ErrOptions, f.name, f.value, f.min, f.max)
		}
	}
	for _, check := range []func() error{
		o.Memory.validate, o.Cache.validate, o.validateDevice, o.Lab.Disk.validate,
		func() error { return o.Lab.W8A8.validate(o) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if o.Lab.Trace != "" && !o.Traceable() {
		return fmt.Errorf("%w: Lab.Trace needs Lab.W8A8, or a Device.Name such as gpu or cpu+gpu", ErrOptions)
	}
	return nil
}

// Traceable reports whether an engine with these options writes events to a trace.
func (o *Options) Traceable() bool {
	return o.Lab.W8A8 != nil || o.usesDevice()
}

// kvFormat returns the format of keys and values for a model.
func (o *Options) kvFormat(f *modelfile.Files) kv.Format {
	if o.Memory.KV != "" {
		format, _ := kv.ParseFormat(o.Memory.KV) // validate has checked it
		return format
	}
	if _, onGPU := o.onGPU(); onGPU || f.Quantized() && !o.Exact {
		return kv.K8V8
	}
	return kv.F32
}

// selection returns the parsed Memory.KVSelect.
func (o *Options) selection() exec.Selection {
	s, _ := exec.ParseSelection(o.Memory.KVSelect) // validate has checked it
	return s
}

// pinFile reports whether resident weights are a mapping of the file.
func (o *Options) pinFile() bool {
	return o.Memory.Pin == "file" || o.Memory.Pin != "anon" && runtime.GOOS == "android" && o.Lab.Disk == (DiskSpeed{})
}

// mapFirst reports whether the engine may start with a mapping of the weights and copy them
// later.
func (o *Options) mapFirst() bool { return o.Memory.Pin != "anon" && !o.pinFile() }

// sessionDir returns the directory of the session store and prefix cache, "" if there is
// none.
func (o *Options) sessionDir() string {
	if o.Cache.KVDir != "" {
		return o.Cache.KVDir
	}
	return o.Cache.Dir
}

// kvDir returns the directory for keys and values that exceed the memory limit, "" if there
// is none.
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

// Sampling holds the parameters of the sampler. The zero value is greedy decoding: the
// sampler always takes the most likely token.
type Sampling struct {
	Temperature float32 // 0 = greedy; 1 = the model's own distribution
	TopK        int     // keep the k most likely tokens; 0 = all
	TopP        float32 // keep the most likely tokens up to this probability mass; 0 or 1 = all
	MinP        float32 // keep tokens with at least this fraction of the top token's probability
	TypicalP    float32 // keep the most typical tokens up to this probability mass; 0 or 1 = all

	RepeatPenalty    float32 // divides positive and multiplies negative logits of seen tokens; 0 or 1 = off
	PresencePenalty  float32 // subtracted once from the logit of each seen token
	FrequencyPenalty float32 // subtracted from the logit of a seen token for each occurrence
	RepeatLastN      int     // number of last tokens that count as seen; 0 = 64, -1 = all

	LogitBias map[int32]float32 // added to the logits of these token ids; -Inf forbids a token
	Seed      *uint64           // seed of the random number generator; nil = a random seed, which Stats.Seed reports
}

// GenerateOptions configure one generation. The zero value decodes greedily until the model
// generates its end-of-text token or the context is full.
type GenerateOptions struct {
	MaxTokens int      // most tokens to generate; 0 = no limit
	Sampling  Sampling // how the sampler chooses tokens
	Stop      []string // strings that end the generation; the answer does not include them
	IgnoreEOS bool     // continue after the model's end-of-text token
	// ParseSpecial encodes special tokens that are spelled in a prompt, such as <|im_end|>,
	// as special tokens. Without it they are plain text, so that a document cannot imitate
	// the conversation around it. The content of chat messages is always plain text.
	ParseSpecial bool
	// Overflow selects what happens when the session reaches its Limit: OverflowStop (the
	// default, also "") or OverflowSlide.
	Overflow string
	// OnSlide, if set, is called when OverflowSlide drops old tokens, with the number of
	// tokens that remain and that are dropped.
	OnSlide func(remaining, dropped int)
	// Chat configures how Chat and ChatMessages render the conversation.
	Chat ChatOptions
	// OnPrefill, if set, is called after each prefill chunk with the number of prompt tokens
	// that are processed and their total.
	OnPrefill func(done, total int)
}
