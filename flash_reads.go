package llmrun

import (
	"github.com/llmrun/llmrun/exec/modelfile"
	"github.com/llmrun/llmrun/store/vfs"
)

// chooseFlashReads decides how flash is read, before the plan counts the memory that it needs.
func (o *Options) chooseFlashReads(f *modelfile.Files) {
	switch pack := f.Packed(); {
	case o.mapped == nil || o.mapped.Enabled() || o.Memory.Flash == "direct":
	case o.Memory.Flash == "mmap":
		o.mapped.Enable()
	case pack != nil && o.mayMapReads() && o.mustStream(pack.Size()) && vfs.MappedIsFaster(vfs.OS(), pack.Path(), AvailableMemory()-o.limit()):
		o.mapped.Enable()
	}
}

// mayMapReads reports whether a measurement may choose mapped reads.
func (o *Options) mayMapReads() bool {
	return o.mapped != nil && o.Memory.Flash != "direct" && o.FS == nil && o.Lab.Disk == (DiskSpeed{})
}

// mustStream reports whether weights of that many bytes exceed the memory limit. If they fit, a
// comparison of ways to read them would delay the first token and gain nothing.
func (o *Options) mustStream(bytes int64) bool {
	limit := o.limit()
	return limit > 0 && bytes > limit
}

// flashReads returns how flash is read: "direct" or "mmap".
func (o *Options) flashReads() string {
	if o.mapped.Enabled() {
		return "mmap"
	}
	return "direct"
}

// mappedBytes is the memory of mapped reads. It also counts where a measurement may choose them,
// so that the minimum of a model does not depend on a measurement, nor on whether the model has
// been imported.
func (o *Options) mappedBytes() int64 {
	if o.mapped.Enabled() || o.mayMapReads() {
		return vfs.MappedBytes
	}
	return 0
}
