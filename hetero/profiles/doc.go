// Package profiles stores measurements of a machine's devices in a file, so that later
// runs can plan without measuring again.
//
// A [File] holds, by the [Key] of a device, the times of its matmuls ([solve.Record]) and,
// by the [Keys] of two devices, the measurements of both together ([Pair]): slowdowns,
// checks of splits, copies between the devices, and [Trial]s, which are the times of whole
// passes. [Load] reads the file and rejects implausible records; [File.Save] writes it
// atomically. Begin reading in file.go.
package profiles
