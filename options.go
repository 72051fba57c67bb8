package llmrun

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/exec/split"
	"github.com/llmrun/llmrun/kv"
	"github.com/llmrun/llmrun/kv/segment"
	"github.com/llmrun/llmrun/store/pack"
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
	// Context is the most tokens of a session. A value above the model's limit means the model's
	// limit. 0 means that limit, or what the plan chooses if the weights do not fit in memory beside it;
	// [Info].Context has the number, and Notify reports it if it is smaller than the model's limit.
	// The engine allocates memory only as sessions grow.
	Context int
	// StrictContext refuses a Context above the model's limit with ErrOptions, for programs whose users state it.
	StrictContext bool
	// Exact multiplies quantized weights with float32 activations, for measurements. Without
	// it, the engine quantizes activations to 8 bits first, which is several times faster.
	// Float weights always use float32 activations.
	Exact bool
	// Describes is set for an engine that describes texts (Embed, Rank) instead of generating some. Keys and values of
	// quantized weights then have 16 bits, because the vector of a text shows small differences that its next word does not.
	// It is not needed for models whose files say that they are for this.
	Describes bool
	// Quantize quantizes float weights while they are loaded: "q8" to 8 bits, with half the
	// size of 16-bit floats and next to no loss; "q4" to 4 bits, with 8 bits for the most
	// sensitive weights; or another name from [Mixes]. "" loads the weights as they are
	// stored.
	Quantize string
	// Adapters are LoRA adapters: directories in peft's format, or GGUF files. One in the other format than the
	// model may have matrices of attention and of the MLP, in common families. The engine merges them into the weights
	// while it loads them; the merged weights take four bytes each. A colon and a scale may follow a
	// path: "style:0.5" adds half of the adapter's changes. All sessions use these adapters.
	//
	// An adapter with a name, "style=PATH" or "style=PATH:0.5", is kept beside the weights instead, and only
	// sessions that choose it use it: see SessionAdapters, [Session.UseAdapters] and [SessionOptions].
	// Sessions with different adapters share passes over the weights, which stay as they are stored. A
	// name has letters, digits, dots, - and _; a path that begins like NAME= needs ./ before it.
	Adapters []string
	// SessionAdapters are the adapters of new sessions, of those with names: "style", or "style:0.5" for half
	// of its changes. Without any, sessions begin without adapters.
	SessionAdapters []string
	// AdaptersBeside leaves the weights as they are stored, and computes the adapters beside them
	// in float32. The weights then take no more memory than without adapters, keep their
	// quantization, and are streamed from a pack without a conversion. Each token takes a little
	// longer, and the answer can differ from that of merged adapters, whose sums are rounded
	// elsewhere. Adapters beside the weights may change matrices of layers only. They exclude Lab.W8A8 and a
	// GPU that computes layers.
	AdaptersBeside bool
	// Progress, if set, is called while weights are loaded. Calls do not overlap.
	Progress func(Progress)
	// Notify, if set, receives messages for the user, one sentence each, for example why the
	// engine did not import the model although Cache.Dir is set.
	Notify func(string)

	Memory MemoryOptions // memory budget, keys and values
	Cache  CacheOptions  // data on disk between runs
	Device DeviceOptions // GPU or NPU
	Drafts DraftOptions  // guesses of several tokens for each pass
	Reward RewardOptions // a model that scores answers
	Lab    LabOptions    // experiments and measurements

	// mapped makes files use mapped reads when it is enabled.
	mapped *vfs.MappedReads
	// program is the Go heap that the program needs beside the engine, if RAM limits it.
	program int64
	// kvKey is the key in Cache.KeyFile, nil without one.
	kvKey *sealKey
	// kvFiles is the file system of sessions, keys and values; nil until it is used.
	kvFiles vfs.FS
	// promptTokens is the number of tokens of the longest prompt, for all copies of the options.
	promptTokens *promptTokens
	// prepared is how matmuls are split over devices; nil without a split, and until prepareSplit.
	prepared *split.Prepared
	// draftFiles and rewardFiles are the files of the draft and the reward model.
	draftFiles, rewardFiles *besideFiles
	// driver is the open device, for all copies of the options.
	driver *driver
	// opening counts the memory of headers while a model is opened; nil counts none.
	opening *opening
	// importRefused: the model could not be imported, so its weights are converted.
	importRefused bool
	// importLock is the lock of the process that is importing it, if that was the reason.
	importLock   string
	awaitsImport bool // the user was told that Open waits for that process
	// nested: the planes of a pack are used as it stores them; see admitPrompt.
	nested bool
	// encoder: the model only describes texts; planInputs sets it.
	encoder bool
	// noPack: the adapters beside the weights would not find their tensors in a pack.
	noPack bool
	// room is that on flash for keys and values, as admit found it.
	room flashRoom
	// plans: the model is planned and not opened.
	plans bool
	// damaged is the pack of the model that was removed because it was damaged, or nil.
	damaged *pack.File
}

// reopen begins a new opening, for a second attempt with other files.
func (o *Options) reopen() {
	o.opening.end()
	o.opening = newOpening(o)
}

// countProgramHeap measures the Go heap of the program if Memory.RAM is set. If the limit is
// what the system has available, the heap in use is already subtracted.
func (o *Options) countProgramHeap() {
	if o.Memory.RAM > 0 {
		o.program, _ = programHeap(nil, 0)
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
		o.Memory.validate, o.Cache.validate, o.Drafts.validate, o.Reward.validate, o.validateDevice, o.Lab.Disk.validate,
		func() error { return o.Lab.W8A8.validate(o) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if err := o.validateAdapters(); err != nil {
		return err
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
	_, onGPU := o.onGPU()
	switch quantized := f.Quantized() && !o.Exact; {
	case f.Hyper != nil && f.Hyper.Bidirectional: // they are those of one layer
		return kv.F32
	case quantized && !onGPU && (o.Describes || f.Describes()):
		return kv.F16
	case onGPU || quantized:
		return kv.K8V8
	}
	return kv.F32
}

// selection returns the parsed Memory.KVSelect.
func (o *Options) selection() exec.Selection {
	if o.encoder {
		return exec.Selection{}
	}
	s, _ := exec.ParseSelection(o.Memory.KVSelect) // validate has checked it
	return s
}

// pinFile reports whether resident weights are a mapping of the file. Files of FS and of a
// throttled disk cannot be mapped.
func (o *Options) pinFile() bool {
	if o.FS != nil || o.Lab.Disk != (DiskSpeed{}) {
		return false
	}
	return o.Memory.Pin == "file" || o.Memory.Pin != "anon" && runtime.GOOS == "android"
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
	if o.sessionDir() == "" || o.usesDevice() || o.encoder || o.Cache.DailyWrites == NoWrites {
		return ""
	}
	return vfs.Join(o.sessionDir(), "kv")
}

// checkCacheDirs refuses cache directories that other users may change, because they could put
// packs, keys and values there, and links where the program makes directories.
func (o *Options) checkCacheDirs() (err error) {
	for _, dir := range []string{o.Cache.Dir, o.Cache.KVDir} {
		if dir != "" {
			err = errors.Join(err, segment.CheckDir(vfs.OSOwn(), dir))
		}
	}
	return err
}

// cacheFS returns the file system of the cache directories, as it is on the disk.
func (o *Options) cacheFS() vfs.FS {
	return o.Lab.Disk.throttle(vfs.WithMappedReads(vfs.OSOwn(), o.mapped))
}

func (o *Options) fsys() vfs.FS {
	fsys := vfs.OS()
	if o.FS != nil {
		fsys = vfs.FromIOFS(o.FS)
	}
	return o.metered(o.Lab.Disk.throttle(vfs.WithMappedReads(fsys, o.mapped)))
}

// metered returns a file system whose readers reserve memory while a model is opened.
func (o *Options) metered(fsys vfs.FS) vfs.FS {
	if o.opening != nil {
		fsys = vfs.Metered(fsys, o.opening)
	}
	return fsys
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

// RewardOptions name a reward model, a model whose head scores answers; see [Engine.Reward]. Its weights stay in
// memory, within the budget of the engine.
type RewardOptions struct {
	// Model is the path of the reward model: one for sequence classification (score.weight), one of TRL with a value
	// head (v_head), or a GGUF file with rank pooling (cls.output); with Marker, also any model with the output matrix
	// of a language model. "" means none.
	Model string
	// Marker is a token that is inserted behind each step of an answer, for a process reward model: the score of a
	// step is that at its marker, and the score of an answer the least of its steps. Of a model without a head
	// it is the probability of the token Good, against Bad. "" scores the whole answer at its last token.
	Marker string
	// Good and Bad are tokens; "" means + and -.
	Good, Bad string
	// Step separates the steps of an answer; "" means two line breaks.
	Step string
}

// defaultStep separates steps of answers.
const defaultStep = "\n\n"

func (o *RewardOptions) validate() error {
	switch {
	case o.Model == "" && (o.Marker != "" || o.Good != "" || o.Bad != "" || o.Step != ""):
		return fmt.Errorf("%w: Reward.Model is empty; Marker, Good, Bad and Step describe a reward model", ErrOptions)
	case o.Marker == "" && (o.Good != "" || o.Bad != ""):
		return fmt.Errorf("%w: Reward.Marker is empty; Good and Bad are tokens behind a marker", ErrOptions)
	}
	return nil
}
