package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/llmrun/llmrun"
	"github.com/llmrun/llmrun/cmd/llmrun/bundled"
	"github.com/llmrun/llmrun/internal/cli"
	"github.com/llmrun/llmrun/internal/modelflag"
)

// modelFlags select the model of a command and how it is computed.
type modelFlags struct {
	path    string // "" = the model in this program
	preset  bool   // path comes from the settings
	threads int
	context int
	// contextPreset: context comes from the settings, which are for all models, also for those with less
	contextPreset bool
	kv            string
	kvSelect      string // fraction of a long context that new tokens attend to
	drafts        llmrun.DraftOptions
	reward        llmrun.RewardOptions // of commands that choose between answers
	lora          []string
	beside        bool     // adapters are not merged
	adapters      []string // of sessions, of those with names
	quant         string
	exact         bool // --exact: activations are not quantized
	// describes: embed and rank
	describes bool
	scoring   bool // logits and perplexity: exact unless rounded is set
	rounded   bool
	cache     *cacheFlags // nil: the command imports nothing
	kvRAM     int64
	session   string // name of the saved session; "" = none
	saveJobs  bool   // parts of documents are saved, also with the bundled demo model
	pin       string
	flash     string
	ram       ramFlag // 0 bytes = the available memory
	prompt    promptNeed
	measure   bool // predict speeds
	disk      llmrun.DiskSpeed
	pressure  bool       // release memory when the system is short of it
	w8a8      *w8a8Flags // nil: the command has no such flags
	device    string
	layers    int // of a GPU; 0 = as many as fit

	deviceMemory int64   // bytes on the device; 0 = as its driver reports
	deviceQuota  float64 // part of a matmul's time that the device of a split may be busy; 0 = all
}

const (
	// modelUsage describes -m.
	modelUsage = "GGUF file (any part of a split one), Hugging Face directory, pack, or the name of a model in llmrun models; default: " + defaultModel
	// everydayModel describes -m in the help of everyday flags.
	everydayModel = "m: model: a GGUF file, Hugging Face directory, or pack; default: " + defaultModel
)

// file returns the path of the model: this program's own file if it has a model inside and -m names no other, and "" for the
// bundled demo model.
func (m *modelFlags) file() string { return cmp.Or(m.path, programModel()) }

// addModel declares -m.
func (m *modelFlags) addModel(f *cli.FlagSet) {
	f.Group("Model")
	f.Text(&m.path, "m model", "PATH", modelUsage)
	if !m.describes { // embedding models and rerankers are other models than those that answer
		f.Setting("model").Unless("template", "shape").Reports(&m.preset)
	}
}

// addAnswering declares the flags that run and chat share, in the order of their help.
func (m *modelFlags) addAnswering(f *cli.FlagSet) {
	m.addModel(f)
	m.addThreads(f)
	m.addQuant(f)
	m.addKV(f)
	m.addSelect(f)
	m.addDraft(f)
	m.addLoRA(f)
	m.addBeside(f)
	m.addExact(f)
	m.addContext(f)
	m.addDevice(f)
	m.addRAM(f)
	m.addCache(f)
	m.addW8A8(f)
	f.Setting("kv")
	f.Setting("draft")
	f.Setting("ctx").Reports(&m.contextPreset)
	f.Setting("device").Unless("devices")
}

// addScoring declares the flags of logits and perplexity, which score a model.
func (m *modelFlags) addScoring(f *cli.FlagSet) {
	m.addModel(f)
	m.addThreads(f)
	m.addQuant(f)
	m.addKV(f)
	m.addDevice(f)
	m.addLoRA(f)
	m.addBeside(f)
	m.addRounded(f)
	addRAM(f, &m.ram, "the available memory")
	m.addDisk(f)
	m.addW8A8(f)
}

// addThreads declares --threads, for commands that compute.
func (m *modelFlags) addThreads(f *cli.FlagSet) {
	f.Count(&m.threads, "threads", "N", "number of threads; default: one for each fast core", 1, 1024)
	f.Setting("threads")
}

// addExact declares --exact, for commands that generate.
func (m *modelFlags) addExact(f *cli.FlagSet) {
	f.Toggle(&m.exact, "exact", "with quantized weights, do not quantize activations to 8 bits; several times slower")
}

// addCache declares the flags of importing on first use, for commands that generate.
func (m *modelFlags) addCache(f *cli.FlagSet) {
	m.cache = &cacheFlags{}
	m.cache.add(f)
}

// addSession declares --session, for commands that generate.
func (m *modelFlags) addSession(f *cli.FlagSet) {
	f.Value("session", "NAME", "continue the session of that name, or start it, and save it in the cache directory: text, messages, and keys and values; llmrun sessions lists sessions", func(name string) error {
		if name == "" { // probably an unset variable of a script
			return errors.New("must be a name, not empty")
		}
		m.session = name
		return nil
	})
}

// openSession opens the named session, or returns an empty one without a name. behind saves it after
// each answer.
func (m *modelFlags) openSession(s *cli.Streams, engine *llmrun.Engine, behind bool) (*llmrun.Session, error) {
	session, err := m.openNamed(s, engine, behind)
	if err == nil && m.adapters == nil && len(session.Adapters()) == 0 && len(engine.Adapters()) > 0 {
		s.Note(fmt.Sprintf("no adapter is in use: choose %s with --adapter", cli.Either(engine.Adapters())))
	}
	return session, err
}

// openNamed is openSession without notes.
func (m *modelFlags) openNamed(s *cli.Streams, engine *llmrun.Engine, behind bool) (*llmrun.Session, error) {
	if m.session == "" {
		return engine.NewSession()
	}
	session, err := engine.OpenSession(m.session, llmrun.SessionOptions{RePrefill: true, Notify: s.Note, SaveBehind: behind, Adapters: m.sessionAdapters()})
	switch {
	case errors.Is(err, llmrun.ErrOptions):
		err = cli.Usagef("--session: must be letters, digits, dots, - and _, at most 100 bytes, with no dot first, not %q", m.session)
	case errors.Is(err, llmrun.ErrNoAdapter):
		err = fmt.Errorf("%w; give it with --lora NAME=PATH, or other adapters with --adapter", err)
	case errors.Is(err, llmrun.ErrContextFull):
		err = fmt.Errorf("%w; give a larger --ctx, or leave --ctx out", err)
	case errors.Is(err, llmrun.ErrFormat):
		err = fmt.Errorf("%w; llmrun sessions rm %s deletes it", err, m.session)
	}
	return session, err
}

// addLoRA declares --lora, for commands that compute.
func (m *modelFlags) addLoRA(f *cli.FlagSet) {
	f.List(&m.lora, "lora", "[NAME=]PATH[:SCALE]", "LoRA adapter: a directory in peft's format, or a GGUF file; it is added to the weights, SCALE times as strongly, such as 0.5; with a NAME it stays beside the weights, and --adapter chooses it; may be given several times")
}

// addBeside declares --lora-beside, for commands that compute with a model.
func (m *modelFlags) addBeside(f *cli.FlagSet) {
	f.Toggle(&m.beside, "lora-beside", "with --lora: leave the weights as they are stored and compute the adapters beside them, instead of merging: takes less memory with quantized weights, and streams a pack without conversion; slightly slower, and the answer can differ from that of merged adapters")
	f.List(&m.adapters, "adapter", "NAME[:WEIGHT]", "use an adapter of --lora NAME=PATH, WEIGHT times as strongly; may be given several times; a session of --session remembers its adapters; or - for none; default: those, or none")
}

// sessionAdapters returns the adapters of --adapter: nil without any, and an empty list for a dash.
func (m *modelFlags) sessionAdapters() []string { return noDash(m.adapters) }

// noDash returns a list of names, of which a dash alone stands for none.
func noDash(names []string) []string {
	if slices.Equal(names, []string{"-"}) {
		return []string{}
	}
	return names
}

// addQuant declares --quant, for commands that compute.
func (m *modelFlags) addQuant(f *cli.FlagSet) {
	f.Choice(&m.quant, "quant", "MIX", "quantize float weights while loading: "+cli.Either(mixNames())+"; llmrun import --help describes them", mixNames()...)
}

// addKV declares --kv, for commands that compute.
func (m *modelFlags) addKV(f *cli.FlagSet) { modelflag.AddKV(f, &m.kv) }

// addSelect declares --kv-select, for commands that generate.
func (m *modelFlags) addSelect(f *cli.FlagSet) {
	f.Value("kv-select", "HOW", "how much of a long context each new token attends to: exact, which is all of it; auto; or a fraction such as 0.1 of everything but its beginning and end, at least 1024 tokens of it; default: exact", func(text string) error {
		if text != "" && text != "exact" && text != "auto" {
			if x, err := cli.ParseFraction(text); err != nil || x == 0 {
				return fmt.Errorf("must be exact, auto, or a fraction above 0 and at most 1 such as 0.1, not %q", text)
			}
		}
		m.kvSelect = text
		return nil
	})
}

// addDevice declares --device, for commands that compute.
func (m *modelFlags) addDevice(f *cli.FlagSet) {
	f.Text(&m.device, "device", "NAME", "the device that computes: cpu; gpu, or gpu: and part of a device's name or its name in llmrun devices, which runs whole layers; or cpu+gpu, cpu+npu or cpu+ and a name in llmrun devices, which splits each matmul between the two as measurements show to be fastest (llmrun profile). The first run with a split measures whole passes and saves the result. Default: cpu. A GPU needs a program built with -tags gpu, an NPU -tags npu")
	m.addGPULayers(f)
	m.addDeviceMemory(f)
	f.Percent(&m.deviceQuota, "device-share", "with a split, the part of a matmul's time that the other device may be busy, which leaves the rest to other programs; default: 100%")
}

// addGPULayers declares --gpu-layers, for commands with --device.
func (m *modelFlags) addGPULayers(f *cli.FlagSet) {
	f.Count(&m.layers, "gpu-layers", "N", "with --device gpu, the number of layers that the GPU computes: the last N and the output matrix; the CPU computes the layers before them. Default: as many as fit in the GPU's memory beside keys and values of --ctx tokens, or of at least 4096; --ram does not change the number", 1, math.MaxInt32)
}

// addDeviceMemory declares --device-memory, for commands with --device.
func (m *modelFlags) addDeviceMemory(f *cli.FlagSet) {
	f.Value("device-memory", "SIZE", "with --device, the most memory to use on the device, such as 2GiB; the CPU computes what does not fit. Default: the size that the driver reports; drivers of NPUs report none", func(text string) (err error) {
		m.deviceMemory, err = parseSize(text)
		return err
	})
}

// addRounded declares --rounded, for commands that score a model and are exact without it.
func (m *modelFlags) addRounded(f *cli.FlagSet) {
	m.scoring = true
	f.Toggle(&m.rounded, "rounded", "with quantized weights, quantize activations to 8 bits, as run and chat do")
}

// addContext declares --ctx, for commands that generate.
func (m *modelFlags) addContext(f *cli.FlagSet) {
	f.Count(&m.context, "ctx", "N", "tokens of context, prompt and answer together (8K is 8192), at most those that the model supports; default: the model's maximum", 1, math.MaxInt32)
}

// source returns the path and the library's options for the flags. It returns an error that names
// the flag of a file that does not exist.
func (m *modelFlags) source() (path string, options llmrun.Options, err error) {
	if options, err = m.options(); err != nil {
		return "", options, err
	}
	if m.file() != "" {
		path, err := findModel("-m", m.file())
		return path, options, err
	}
	options.FS = bundled.FS
	return bundled.Name, options, nil
}

// options returns the library's options for the flags, whatever the model is.
func (m *modelFlags) options() (llmrun.Options, error) {
	options := llmrun.Options{Threads: m.threads, Context: m.context, StrictContext: !m.contextPreset, Adapters: m.lora, AdaptersBeside: m.beside, Quantize: m.quant, Exact: m.exact || m.scoring && !m.rounded, Memory: llmrun.MemoryOptions{KV: m.kv, KVSelect: m.kvSelect, RAM: m.ram.bytes, Prompt: m.prompt.memory, PromptTexts: m.prompt.texts, PromptTokens: m.prompt.tokens, AnswerTokens: m.prompt.answer, LogitRows: m.prompt.logitRows, KVRAM: m.kvRAM, Pin: m.pin, Flash: m.flash, WatchPressure: m.pressure, WatchProcess: true}, Lab: llmrun.LabOptions{Disk: m.disk, Measure: m.measure}, Drafts: m.drafts, Reward: m.reward, Device: llmrun.DeviceOptions{Name: m.device, GPULayers: m.layers, Quota: m.deviceQuota, Memory: m.deviceMemory}}
	options.SessionAdapters, options.Describes = m.sessionAdapters(), m.describes
	return options, checkAdapters(m.lora)
}

// takeArgument takes the model from the argument of a command that needs no other, where it can be one.
func (m *modelFlags) takeArgument(args []string) error {
	if len(args) == 0 || !namesModel(args[0]) {
		return cli.NoArguments(args)
	}
	if m.path != "" && !m.preset {
		return cli.Usagef("-m %s and %s are two models: give one of them", m.path, args[0])
	}
	m.path = args[0]
	return cli.NoArguments(args[1:])
}

// savesKV reports whether keys and values may go to the cache directory. Those of the bundled
// model go there only with --session, --cache-dir, --cache-key-file or --kv-ram.
func (m *modelFlags) savesKV() bool {
	return m.file() != "" || m.session != "" || m.cache != nil && (m.cache.dir != "" || m.cache.keyFile != "") || m.kvRAM != 0
}

// applyCache sets the directories of imported models, and of keys and values. plan and the
// commands that generate share it, because a plan depends on them.
func (m *modelFlags) applyCache(options *llmrun.Options) error {
	if m.cache == nil {
		return nil
	}
	if m.file() != "" {
		m.cache.apply(options)
	}
	if m.session != "" || m.saveJobs || m.file() == "" && m.savesKV() {
		return m.cache.applySessions(options)
	}
	return nil
}

// open loads the model and shows progress bars.
func (m *modelFlags) open(ctx context.Context, s *cli.Streams) (*llmrun.Engine, error) {
	if err := m.checkDevice(); err != nil {
		return nil, err
	}
	path, options, err := m.source()
	if err != nil {
		return nil, err
	}
	if err := m.w8a8.apply(&options, m.exact); err != nil {
		return nil, err
	}
	// Opening a split model times whole passes, which loads the weights up to three times.
	bar := &phases{s: s, labels: []string{"loading", "loading again", "loading again"}}
	defer bar.finish()
	if err := m.applyCache(&options); err != nil {
		return nil, err
	}
	if m.cache != nil && m.file() != "" {
		importing := &phases{s: s, labels: []string{"importing"}}
		defer importing.finish()
		options.Cache.ImportProgress = importing.report
		options.Notify = func(text string) { importing.finish(); s.Note(text) }
		options.Cache.Imported = func(pack llmrun.Imported) {
			importing.finish()
			s.Note(importedText(pack))
		}
	}
	if options.Notify == nil && (m.ram.bytes > 0 || options.Cache.KVDir != "") {
		options.Notify = s.Note
	}
	if isSplit(m.device) || isGPU(m.device) {
		m.saveMeasurements(s, &options)
	}
	options.Progress = bar.report
	measuring := cli.NewMeter(s, "measuring the devices", formatMatmuls)
	defer measuring.Finish()
	options.Device.Progress = func(done, total int) { measuring.Update(int64(done), int64(total)) }
	engine, err := llmrun.OpenContext(ctx, path, options)
	if err != nil {
		return nil, cli.Interruption(ctx, err)
	}
	return engine, nil
}

// importedText says what the first use of a model leaves on the disk.
func importedText(pack llmrun.Imported) string {
	return fmt.Sprintf("the model was imported for this and later runs: its pack %s takes %s; llmrun cache lists packs and deletes them", pack.Path, cli.FormatBytes(pack.Bytes))
}

// saveMeasurements makes the library save measurements of devices where llmrun profile saves
// them, also for the bundled model and for commands that import nothing.
func (m *modelFlags) saveMeasurements(s *cli.Streams, options *llmrun.Options) {
	cache := m.cache
	if cache == nil {
		cache = &cacheFlags{}
	}
	cache.apply(options)
	if options.Notify == nil {
		options.Notify = s.Note
	}
}

// needTokenizer returns an error for a model without a tokenizer, as converted checkpoints
// often are. The error says how to use the model.
func needTokenizer(engine *llmrun.Engine) error {
	if engine.Tokenizer() == nil {
		return fmt.Errorf("%w: the model can only continue token ids, with llmrun run --ids", llmrun.ErrNoTokenizer)
	}
	return nil
}

// tokenizer opens the model's tokenizer without loading weights.
func (m *modelFlags) tokenizer() (*llmrun.Tokenizer, error) {
	path, options, err := m.source()
	if err != nil {
		return nil, err
	}
	return llmrun.OpenTokenizer(path, options)
}
