// Package tiering accounts for memory, allocates it outside Go's heap and plans how a
// model uses it.
//
// # Overview
//
// A [Budget] is the ledger of all large memory of the process. A component reserves
// memory for a [Purpose] before it allocates and gets a [Lease]. The sum of all
// leases never exceeds the limit. A refusal is a [*BudgetError] that names the
// purpose and the numbers; it happens before any memory is touched.
//
// A [Frame] is memory from the operating system: page-aligned, zeroed, and invisible
// to Go's garbage collector. Weights, KV and activations live in frames. [Alloc]
// reserves and maps memory in one step; [Frame.Free] unmaps it and releases the
// lease. An [Arena] divides a frame into aligned slices, so that a forward pass
// allocates nothing.
//
// [MakePlan] computes a [Plan] from the sizes of a model ([Shape]) and a budget
// ([Need]): which weights stay in memory, which are streamed, and how much KV,
// activations and caches get. [Available] returns the memory that the system can
// provide. A [Governor] adjusts a limit to memory pressure ([ReadSigns]).
//
// Begin reading in budget.go and frame.go, then plan.go and plan_make.go.
//
// # Rules
//
// A frame has one owner, which frees it. Free invalidates all slices of the frame; a
// later access is a memory fault. Tests call [SetInvariants] to overwrite released memory
// with NaNs, and end with [Budget.Check], which reports leases that were not
// released.
//
// The ledger counts only reserved memory. Go's heap, its stacks and the program's
// code are included as far as the program reserves for them under [Heap] and [Code].
//
// The package imports no other package of this module.
package tiering
