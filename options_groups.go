package llmrun

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/llmrun/llmrun/exec"
	"github.com/llmrun/llmrun/kv"
)

// MemoryOptions limit the memory of an engine and choose what it holds in memory.
type MemoryOptions struct {
	// RAM is the memory limit in bytes for the engine, the program's code and its Go heap;
	// see [ParseMemory]. 0 means [AvailableMemory]; NoLimit removes the limit. If the model
	// does not fit, the engine streams the rest of the weights from flash, which requires a
	// pack: set Cache.Dir, or open a pack. The limit does not change the answer. If the model
	// cannot run within the limit, Open returns a [*MinimumError] before it loads anything.
	//
	// If RAM is set, the plan reserves 1.5 times the Go heap that is live when the engine
	// opens, or what [SetProgramHeap] has stated, and the engine sets Go's memory limit until it is
	// closed. If the program's heap grows or shrinks considerably afterwards, call [Engine.SetBudget] again,
	// or set a limit with debug.SetMemoryLimit, which takes precedence if it is lower; see LeaveGoLimit. Each open engine
	// has its own limit.
	RAM int64
	// LeaveGoLimit leaves Go's memory limit as GOMEMLIMIT or debug.SetMemoryLimit has set it, as long as the engine
	// is open, also if other engines would lower it. The engine still reserves the heap in its plan; a program whose
	// heap grows beyond that exceeds RAM instead of collecting garbage more often.
	LeaveGoLimit bool
	// Prompt is the memory that the longest prompt takes, if it is known; see [PromptMemory]. Open
	// then refuses a limit that has no room for it beside the smallest part of the model, so that
	// the minimum of the error is enough for both. The memory is reserved only while a prompt is
	// converted into tokens.
	Prompt int64
	// PromptTexts are the texts of the longest prompt, if they are known, and PromptTokens is the
	// number of its tokens that are not part of a text. If Context is 0, the context that Open
	// chooses has room for them and for an answer of 256 tokens, or Open returns a
	// [*MinimumError] for such a context. A prompt that no context of the model holds has no effect.
	PromptTexts  []string
	PromptTokens int
	// AnswerTokens is the most tokens of the answer to the prompt, if it is known; one of
	// WholeContext may fill the context. Open then refuses a limit in which the prompt and such an answer exceed the daily writes or the disk;
	// see [CacheOptions].DailyWrites.
	AnswerTokens int
	// LogitRows is the most positions of a call of [Engine.Logits], if it is known. Their memory is
	// treated as that of Prompt.
	LogitRows int
	// KV is the format of keys and values: "f32"; "f16" with half the size; "k8v8" with 8
	// bits per element, a quarter; "k8f8" with 8-bit keys and 8-bit float values, also a
	// quarter; or "k4v8" with 4-bit keys, a fifth. "" means k8v8 for a model with quantized
	// weights, unless Exact is set, and f32 otherwise.
	KV string
	// KVRAM is the limit in bytes for keys and values in memory when older ones can move to
	// Cache.KVDir. 0 lets the plan decide: it keeps all of them in memory if they fit, and
	// otherwise gives weights priority.
	KVRAM int64
	// KVSelect selects how much of a long context a new token attends to. "" or "exact" means
	// all of it. A fraction such as "0.1" means that part of the context in each layer, but at
	// least 1024 tokens; the beginning and the end are always included. The engine ranks the pages by summaries of
	// their keys, which take a sixteenth of the memory of k8v8. "auto" adapts the fraction to
	// the text. Prompts of more than a few tokens always attend to everything. Answers can
	// differ from those of "exact".
	KVSelect string
	// Chunk is the number of tokens of a prefill chunk. 0 means 512, or fewer if memory is
	// scarce. Larger chunks need larger scratch buffers. The chunk size does not change the
	// answer.
	Chunk int
	// Pin selects how resident weights of a pack are held: "anon" copies them to anonymous
	// memory, which is fastest; "file" maps the file, which opens faster if the page cache
	// holds it, and which the system can reclaim; "auto" (the default, also "") means "file"
	// on Android, where the system kills programs with much anonymous memory, and "anon"
	// elsewhere. With "auto", if all weights stay resident and the page cache holds the whole
	// file, the engine computes the first token from a mapping and promotes the weights to
	// anonymous memory afterwards.
	Pin string
	// Flash selects how weights, embedding rows, keys and values are read from flash while the
	// engine runs: "direct" past the page cache, "mmap" through small mapped windows of the
	// files, whose content stays in the page cache as long as the system has memory for it, or
	// "auto" (the default, also ""), which takes the faster way: mmap if the page cache holds the
	// model, or has room for it, and a short comparison finds it faster. The answer is the same.
	Flash string
	// WatchProcess compares the memory of the whole process, as the kernel counts it, with
	// RAM once a second. If the process holds more, the engine releases weights and Notify
	// receives the figures. Set it only if RAM covers everything that the process does. It
	// works on Linux and Android.
	WatchProcess bool
	// WatchPressure releases memory while the system is under memory pressure, and takes it
	// back, up to RAM, when the pressure ends. On Linux and Android the engine reads pressure
	// stall information, control group limits and the available memory. On other systems the
	// option has no effect.
	WatchPressure bool
}

func (m *MemoryOptions) validate() error {
	if m.RAM < NoLimit {
		return fmt.Errorf("%w: Memory.RAM is %d; it must be a number of bytes, 0 for the available memory, or NoLimit", ErrOptions, m.RAM)
	}
	if m.Prompt < 0 {
		return fmt.Errorf("%w: Memory.Prompt is %d; it must be a number of bytes, or 0", ErrOptions, m.Prompt)
	}
	if m.PromptTokens < 0 || m.AnswerTokens < 0 || m.LogitRows < 0 {
		return fmt.Errorf("%w: Memory.PromptTokens is %d, Memory.AnswerTokens %d and Memory.LogitRows %d; none may be negative", ErrOptions, m.PromptTokens, m.AnswerTokens, m.LogitRows)
	}
	if m.KV != "" && !slices.Contains(kvFormats(), m.KV) {
		return fmt.Errorf("%w: Memory.KV is %q; it must be one of %s", ErrOptions, m.KV, strings.Join(kvFormats(), ", "))
	}
	if m.KVRAM < 0 {
		return fmt.Errorf("%w: Memory.KVRAM is %d; it must be a number of bytes, or 0 for the plan's choice", ErrOptions, m.KVRAM)
	}
	if _, err := exec.ParseSelection(m.KVSelect); err != nil {
		return fmt.Errorf("%w: Memory.KVSelect is %q; it must be exact, auto, or a fraction such as 0.1 that is above 0 and at most 1", ErrOptions, m.KVSelect)
	}
	if !slices.Contains([]string{"", "auto", "anon", "file"}, m.Pin) {
		return fmt.Errorf("%w: Memory.Pin is %q; it must be anon, file or auto", ErrOptions, m.Pin)
	}
	if !slices.Contains([]string{"", "auto", "direct", "mmap"}, m.Flash) {
		return fmt.Errorf("%w: Memory.Flash is %q; it must be auto, direct or mmap", ErrOptions, m.Flash)
	}
	return nil
}

// kvFormats returns the names of the formats of keys and values.
func kvFormats() (names []string) {
	for _, f := range kv.Formats() {
		names = append(names, f.String())
	}
	return names
}

// CacheOptions configure what an engine saves on disk between runs.
type CacheOptions struct {
	// Dir is the cache directory for packs. When a model with quantized weights is opened for
	// the first time, the engine imports it to a pack in Dir, which loads faster; see Import.
	// "" writes nothing. The engine does not import models that it changes while loading or
	// that it opens with Exact.
	Dir string
	// Size is the limit in bytes for Dir. 0 means 32 GiB, or a third of the free disk space
	// if that is less. The engine removes the least recently used files first.
	Size int64
	// KVDir is the directory for keys and values. "" means Dir. If neither is set, a session
	// is limited by memory and nothing of it is saved.
	//
	// Keys and values that exceed the memory limit go to an unnamed file in KVDir, which
	// disappears when the engine is closed. The length of a session is then limited by the
	// model and the disk, and the answer does not change.
	//
	// Named sessions are saved in KVDir; see [Session.Save]. It also holds the prefix cache:
	// a prompt with the same beginning as an earlier one, in any session or process, is
	// prefilled only from the first different token. The engine saves a prompt of 512 tokens
	// or more when the generation ends, also if its prefill was interrupted, and longer
	// prompts every 4096 tokens. The prefix cache takes at most a quarter of Size. The engine
	// removes the least recently used files first, but never those of named sessions.
	KVDir string
	// KVTTL is how long keys and values, and sessions, stay in KVDir after their last use. Open
	// deletes older ones: sessions that were last saved, and cached prefixes that were last read
	// or written, longer ago. 0 keeps them until there is no room.
	KVTTL time.Duration
	// KeyFile names a file with a key of 32 random bytes, also as 64 hexadecimal digits or
	// base64, that only its owner may read. With it, everything in KVDir about sessions and
	// prompts is encrypted with AES-256-GCM: keys and values, those that exceed the memory
	// limit too, texts, and the names of files. Files that were written without this key are not
	// used and not deleted; OpenSession tells of them when it begins a session. Packs are not
	// encrypted. Without the key, the data is lost.
	KeyFile string
	// NoKV turns the prefix cache off. Named sessions are still saved.
	NoKV bool
	// DailyWrites is the most bytes of keys and values that are written below KVDir on a day
	// (UTC), by all processes together, because flash wears out: those that exceed the memory
	// limit, those of the prefix cache and those of sessions. 0 means [DefaultDailyWrites];
	// NoLimit removes the limit; NoWrites writes none. Beyond the limit, prompts and sessions are
	// saved without keys and values, which Notify reports once, and pages stay in memory. If that
	// has no room, a prompt is refused before its prefill, by Open if Memory tells its length,
	// with an error that wraps ErrBudget and ErrWritesSpent. An answer ends where Notify has said
	// before the prefill, with [StopContext].
	DailyWrites int64
	// ImportProgress, if set, is called while the engine imports a model.
	ImportProgress func(Progress)
	// Imported, if set, is called when the engine has imported the model into Dir.
	Imported func(Imported)
}

// WholeContext as MemoryOptions.AnswerTokens is an answer that may fill the context.
const WholeContext = 1 << 24

// NoWrites as CacheOptions.DailyWrites writes no keys and values.
const NoWrites = -2

// DefaultDailyWrites is the default of CacheOptions.DailyWrites. Flash of 128 GB whose cells
// stand 500 writes lasts for ten years of such days.
const DefaultDailyWrites = 16 << 30

func (c *CacheOptions) validate() error {
	if c.DailyWrites < NoWrites {
		return fmt.Errorf("%w: Cache.DailyWrites is %d; it must be a number of bytes, 0 for the default, NoLimit or NoWrites", ErrOptions, c.DailyWrites)
	}
	if c.KVTTL < 0 {
		return fmt.Errorf("%w: Cache.KVTTL is %v; it must be a duration, or 0 to keep everything", ErrOptions, c.KVTTL)
	}
	if c.Size < 0 {
		return fmt.Errorf("%w: Cache.Size is %d; it must be a number of bytes, or 0 for the default", ErrOptions, c.Size)
	}
	return nil
}

// DeviceOptions select a GPU or NPU.
type DeviceOptions struct {
	// Name selects the device: "" or "cpu"; "gpu" for the first GPU with an OpenCL driver; or
	// "gpu:" and a part of a device's name. GPUs need a program built with the tag gpu, and a
	// model family with llama-like layers. The weights, and the keys and values in k8v8, are
	// in the device's memory. The engine does not import the model, and a saved session
	// contains only its tokens, which are re-prefilled. Where two tokens are about equally
	// likely, the answers can differ from the CPU's. If the model does not fit on the GPU,
	// the CPU computes the first layers; see GPULayers.
	//
	// "cpu+gpu", "cpu+npu" or "cpu+" and a device's name splits each matmul between the CPU
	// and the device, which compute concurrently. The engine measures both to find the
	// fastest split, and saves the measurements in Cache.Dir. For the first split it also
	// times whole passes, for which it loads the model two or three times. If prefill or
	// decode does not benefit from the device, it stays on the CPU, and Notify says so. The
	// CPU computes everything except matmuls, so a split works with every model family.
	Name string
	// GPULayers is how many of the model's last layers, plus the output matrix, the GPU
	// computes; a value above the number of layers means all. 0 means as many as fit in the
	// device's memory beside the keys and values of Context tokens. The number never depends on
	// Memory.RAM: if the device shares the machine's memory and the budget has no room for its
	// layers, the model is refused, and the error says how many would fit. If Context is 0 too, the engine reserves as much
	// context as costs no layer, and at least 4096 tokens. See [Engine.Placement].
	GPULayers int
	// Quota, if set, is the fraction of a matmul's time for which the other device of a split
	// may be busy. The rest stays free for other uses, such as a phone's screen. 0.3 means 30
	// %.
	Quota float64
	// Memory, if set, is the limit in bytes for the model in the device's memory. Drivers of
	// NPUs do not report how much memory they address, and other programs may need a GPU's. A
	// split then leaves the matrices on the CPU that benefit least; a GPU gets fewer layers.
	Memory int64
	// Progress, if set, is called while the engine measures devices for a split, with the
	// number of matmuls that are measured and the most that have to be.
	Progress func(done, total int)
}

// LabOptions are for experiments and measurements.
type LabOptions struct {
	// W8A8, if set, computes matmuls of layers as NPUs do: 8-bit weights with one scale per
	// row, 8-bit activations with one scale per input, and an outlier path in float for
	// values beyond that scale. It needs a calibration of the model; see [Calibrate]. Expert
	// matrices are excluded. All weights stay in memory. An NPU of a split (Device.Name
	// cpu+npu) may compute rows of these matmuls; a GPU may not, because it quantizes
	// differently.
	W8A8 *W8A8
	// Trace, if set, is the file to which Close writes a trace in Chrome's format. It shows
	// when each thread worked on the two paths of W8A8, or what a GPU, or the two sides of a
	// split, computed and waited for. Tracing takes time.
	Trace string
	// Disk throttles reads of the model's files, and writes of an import, to the speed of
	// another storage device. Throttled files cannot be mapped; see MemoryOptions.Pin.
	Disk DiskSpeed
	// Measure includes speed predictions in [Engine.Memory]. The first time, measuring the
	// machine takes a second. There are no predictions for devices other than the CPU.
	Measure bool
}
