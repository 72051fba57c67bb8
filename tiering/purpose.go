package tiering

import "fmt"

// Purpose classifies memory. The ledger counts by purpose, so that reports and errors
// can list the consumers.
type Purpose uint8

// The purposes, in the order of reports.
const (
	Pinned      Purpose = iota // weights that stay in memory
	Ring                       // buffer of streamed weights
	Cached                     // embedding row cache and expert cache
	Mapped                     // resident pages of mapped files
	KVHot                      // KV in memory
	KVFrames                   // buffers for KV from flash
	KVSummaries                // summaries of keys for page selection
	Drafts                     // what drafters remember
	Rewards                    // a reward model
	Scratch                    // activations and other memory of a batch
	Shared                     // buffers shared between devices
	Heap                       // Go's heap: vocabularies, tables, bookkeeping
	Code                       // the program's code
	Driver                     // a device's driver, besides the buffers above

	purposes // number of purposes
)

var purposeNames = [purposes]string{
	"pinned weights", "weight ring", "weight cache", "mapped files", "kv hot", "kv frames", "kv summaries", "drafts", "reward model", "scratch", "shared buffers", "heap", "code", "device driver",
}

// String returns the name that reports and errors use.
func (p Purpose) String() string {
	if p >= purposes {
		return fmt.Sprintf("purpose(%d)", uint8(p))
	}
	return purposeNames[p]
}
