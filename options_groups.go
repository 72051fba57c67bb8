package llmrun

// MemoryOptions bound the memory of an engine.
type MemoryOptions struct {
	// RAM is the most memory, in bytes, that the engine and the program around it may
	// take, code included; see [ParseMemory]. 0 means what the system has to give,
	// [AvailableMemory], and NoLimit whatever is needed. A model that does not fit is read
	// from flash while it is used: that needs a pack, so Cache.Dir or a path to one. The
	// answer is the same. What cannot fit at all is refused with a [*MinimumError] before
	// anything is loaded.
	//
	// With a limit given here, the program's Go heap at the moment of opening counts, one
	// and a half times, and the engine sets Go's own memory limit while it is open. A
	// program whose heap grows by much afterwards calls [Engine.SetBudget] again, or
	// debug.SetMemoryLimit, which then stays. Engines that are open together have a budget
	// each.
	RAM int64
	// KV is the precision of keys and values: "f32"; "f16", half of that; "k8v8", a
	// quarter, with 8 bits an element; "k8f8", as much, with values in 8-bit floats; or
	// "k4v8", a fifth, with 4 bits for keys. "" means k8v8 for a model with quantized
	// weights, unless Exact is set, and f32 for others.
	KV string
	// KVRAM is the most memory for keys and values while older ones can go to Cache.KVDir.
	// 0 leaves it to the plan: all of them stay where there is room, and otherwise weights
	// come first.
	KVRAM int64
	// KVSelect says how much of a long context a new token attends to. "" or "exact" is
	// all of it. A fraction such as "0.1" is that part, in each layer, of all but its
	// beginning and end: what summaries of the keys, which take a sixteenth of the memory
	// of k8v8, show to matter most. "auto" chooses how much. Prompts of more than a few
	// tokens are always read exactly. Answers are not quite those of "exact".
	KVSelect string
	// Chunk is how many tokens of a prompt are computed together; 0 means 512, or fewer
	// where memory is scarce. Larger chunks need more scratch memory. The answer is the
	// same.
	Chunk int
	// Pin says how weights of a pack stay in memory: "anon" as a copy, the fastest; "file"
	// as a mapping of the file, which opens faster when the system has it in its page
	// cache and counts as memory that the system can take back; or "auto", which is "file"
	// on Android, where copies get a program killed, and "anon" elsewhere. With "auto", if
	// the page cache holds the whole file and all weights stay in memory, the first token
	// comes from a mapping and the copy is made behind it. "" is "auto".
	Pin string
	// WatchPressure makes the engine give memory back while the system is short of it, and
	// take it again, never more than RAM, when that is over. On Linux and Android it reads
	// pressure stall information, limits of control groups and the available memory;
	// elsewhere it does nothing.
	WatchPressure bool
}

// CacheOptions say what an engine keeps on flash between runs.
type CacheOptions struct {
	// Dir, if set, is a directory where a model with quantized weights is imported to when
	// it is first used, in the form in which it loads fastest; see Import. "" writes
	// nothing to the disk. Models whose weights are changed while loading, or used exactly,
	// are read as they are.
	Dir string
	// Size bounds the bytes in Dir; 0 means 32 GiB, or a third of what is free on the disk
	// where that is less. What was not used for longest is removed first.
	Size int64
	// KVDir is a directory for keys and values. "" means Dir; with neither, a conversation
	// is as long as memory allows and nothing of it is saved.
	//
	// Keys and values for which there is no memory go to an unnamed file in it, which is
	// gone when the engine is closed. A conversation is then as long as the model and the
	// disk allow, and the answer is the same.
	//
	// Sessions with a name are saved there, see [Session.Save], and so are the keys and
	// values of prompts: a prompt that begins like an earlier one, in any session or
	// process, is prefilled from where they differ. Prompts of 512 tokens or more are saved
	// at the end of a generation, also of one that is interrupted during prefill, and longer
	// ones every 4096 tokens. A quarter of Size bounds them; what was not used for longest
	// is removed first, except for what sessions with a name need.
	KVDir string
	// NoKV saves no keys and values of prompts and looks for none. Sessions with a name
	// are saved all the same.
	NoKV bool
	// ImportProgress, if set, is called while a model is imported.
	ImportProgress func(Progress)
}

// DeviceOptions choose a GPU or NPU.
type DeviceOptions struct {
	// Name is what computes: "" or "cpu"; "gpu", the first GPU that has an OpenCL driver;
	// or "gpu:" and part of a device's name. It needs a program that was built with the tag
	// gpu, and one of the families whose layers are like llama's. Weights, and keys and
	// values in k8v8, are then in the device's memory; nothing is imported, and of a session
	// only its text is saved and prefilled again. Answers differ from those of the CPU where
	// two tokens are about as likely. Of a model that does not fit there the CPU computes
	// the first layers, see GPULayers, whose weights stay in the machine's memory.
	//
	// "cpu+gpu", "cpu+npu" or "cpu+" and a device's name splits each matmul between the CPU
	// and the device, at the same time, as measurements of both show to be fastest;
	// measurements in Cache.Dir are used, and missing ones are made and saved there. The
	// first time, whole passes are timed as well, for which the model is loaded two or three
	// times: prompts, or single tokens, that gain nothing stay on the CPU, and Notify says
	// so. Everything but matmuls is computed on the CPU, so that every family can be split.
	Name string
	// GPULayers is how many of the model's last layers a GPU computes, with the output
	// matrix; more than the model has are all. 0 means as many as there is room for, beside
	// keys and values of Context tokens: where that is not set, of as many as cost no layer,
	// and at least 4096. See [Engine.Placement].
	GPULayers int
	// Quota, if set, is how much of a matmul's time the other device of a split may be busy,
	// which leaves the rest to others, such as the screen of a phone: 0.3 is 30 %.
	Quota float64
	// Memory, if set, is how many bytes of the device's memory the model may take: drivers
	// of NPUs do not report how many they address, and other programs may need a GPU's. Of a
	// split those matrices stay on the CPU that then gain least, of a model on a GPU the
	// first layers.
	Memory int64
	// Progress, if set, is called while devices are measured for a split, with the number
	// of matmuls that were measured and the number that may have to be.
	Progress func(done, total int)
}

// LabOptions are for experiments and measurements.
type LabOptions struct {
	// W8A8, if set, multiplies the matrices of layers as neural processors do: weights of 8
	// bits with one scale for a row, activations of 8 bits with one scale for all of an
	// input, and what lies beyond that scale, the outliers, in floats beside them. It needs
	// a calibration of the model, see [Calibrate]. Experts are left out. All weights stay in
	// memory. A Device such as cpu+npu may compute rows of the integers, but a GPU may not:
	// it quantizes in its own way.
	W8A8 *W8A8
	// Trace, if set, is a file for a trace in Chrome's format, which is written when the
	// engine is closed: when each thread worked on which half of the matmuls of W8A8, or
	// what a GPU, or the two sides of a split, did and waited for. Tracing takes time.
	Trace string
	// Disk makes the model's files as slow as on another device, to see how fast a model
	// would be on a phone's flash. Files that are slowed down cannot be mapped, see
	// MemoryOptions.Pin. Writes of an import are slowed down as well.
	Disk DiskSpeed
	// Measure asks for predictions of speed in [Engine.Memory]. It takes a second when
	// nothing is known about the machine yet. Nothing is predicted for a Device other than
	// the CPU.
	Measure bool
}
