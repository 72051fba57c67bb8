package tiering

import "fmt"

// Purpose says what a piece of memory is for. The ledger is kept by purpose,
// so that a report or an error can say where the memory went.
type Purpose uint8

// The purposes, in the order in which reports list them.
const (
	Pinned      Purpose = iota // weights that stay in memory
	Ring                       // weights passing through on their way from flash
	Cached                     // rows of an embedding and experts that were read lately
	Mapped                     // file mappings: their resident pages count as ours
	KVHot                      // keys and values held in memory
	KVFrames                   // keys and values fetched back from flash
	KVSummaries                // what is known of keys without reading them
	Scratch                    // activations and other per-batch memory
	Shared                     // buffers that several devices see
	Heap                       // Go's heap: vocabularies, tables, bookkeeping
	Code                       // the program itself

	purposes // how many there are
)

var purposeNames = [purposes]string{
	"pinned weights", "weight ring", "weight cache", "mapped files", "kv hot", "kv frames", "kv summaries", "scratch", "shared buffers", "heap", "code",
}

// String returns the name that reports and errors use.
func (p Purpose) String() string {
	if p >= purposes {
		return fmt.Sprintf("purpose(%d)", uint8(p))
	}
	return purposeNames[p]
}
