// Package devices lists the compute devices of this machine: the CPU and its groups
// of cores, and the devices of the drivers that are built in and installed.
//
// Drivers are behind build tags, because a program that loads libraries is not
// static any more. A file with the tag sets the [Provider] of its driver; without
// the tag, the list says how to build with it. A driver is loaded on the first
// query. A missing driver is an entry of the list, not an error.
package devices
