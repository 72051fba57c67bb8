// Package tiering decides who may hold how much memory.
//
// Two ideas carry it:
//
//   - One ledger. A [Budget] knows every large piece of memory that the engine
//     holds and what it is for. Whoever wants memory reserves it first and gets
//     a [Lease]; the sum of the leases never exceeds the limit, and a lease is
//     returned exactly once. Asking for too much is an error that names the
//     purpose and the figures, before any memory is touched.
//   - Off the heap. Weights, keys and values, and activations live in [Frame]s:
//     anonymous memory from the operating system, page-aligned and zeroed, that
//     Go's garbage collector neither scans nor counts. [Alloc] reserves and maps
//     in one step, [Frame.Free] unmaps and returns the lease. An [Arena] hands
//     out aligned slices of one frame, so a forward pass allocates nothing.
//
// A frame is freed by its owner and by nobody else; slices taken from it die
// with it. Touching one afterwards is a memory fault, as in any language
// without a garbage collector. Tests call [SetInvariants] so that released
// memory is overwritten with NaNs, and end with [Budget.Check], which reports
// every lease that nobody returned.
//
// The ledger counts what is reserved through it. Go's own heap, stacks and the
// program's code are known to it only as far as somebody reserves for them
// under [Heap] and [Code].
//
// The package imports nothing of the project and calls nobody.
package tiering
