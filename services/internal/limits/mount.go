package limits

import (
	"strconv"
	"time"
)

// Limits of environments that the command line mounts.
const (
	// MountIndex is the maximum size of an environment's index as compressed, and MountIndexRaw that of the
	// uncompressed one, in bytes.
	MountIndex, MountIndexRaw = 64 << 20, 512 << 20
	// MountResponse is how long a registry may take to respond to a request, and MountRange how long a
	// part of a package may take to arrive.
	MountResponse, MountRange = 30 * time.Second, 2 * time.Minute
	// MountConfig is the maximum size of the description of an environment in bytes.
	MountConfig = 4 << 20
	// MountPackages is the maximum number of packages of an environment.
	MountPackages = 10_000
	// MountFiles is the maximum number of files, directories and links of an environment, and MountDepth
	// that of directories inside each other.
	MountFiles, MountDepth = 4_000_000, 512
	// MountPackageIndex is the maximum size of the index of a package in bytes.
	MountPackageIndex = 256 << 20
	// MountFirsts is the maximum number of chunks in a list of what commands read first, and MountFirstsBytes the maximum size of the list in bytes.
	MountFirsts, MountFirstsBytes = 4096, 128 << 10
	// MountRootBytes is the maximum size in bytes of an image that is unpacked as the root of commands, and of its layers.
	MountRootBytes = 64 << 30
	// AgentConnections is the maximum number of commands that share the mount of one agent.
	AgentConnections = 4096
	// AgentImage is the maximum length in bytes of the name of an image that a command sends to its agent, and MountSources the
	// number of such names from which an agent fetches packages.
	AgentImage, MountSources = 1 << 10, 4
	// AgentMessage is the maximum size of a message between this program's processes in bytes.
	AgentMessage = 4 << 20
)

// mountRows lists the limits of mounted environments.
func mountRows() []Row {
	n := strconv.Itoa
	return []Row{
		{What: "mounted environment: index, compressed and uncompressed", Bound: size(MountIndex) + ", " + size(MountIndexRaw), Why: "the command line has it in memory while it decompresses it"},
		{What: "mounted environment: response of the registry, and a part of a package", Bound: MountResponse.String() + ", " + MountRange.String(), Why: "commands wait for it; it is requested again, and then the read fails"},
		{What: "mounted environment: description", Bound: size(MountConfig), Why: "it is in memory as a whole; 10,000 packages take 2 MB"},
		{What: "mounted environment: packages", Bound: n(MountPackages), Why: "each is an open file of the process that serves the environment"},
		{What: "mounted environment: files, and directories inside each other", Bound: n(MountFiles) + ", " + n(MountDepth), Why: "a file takes some 400 bytes of a worker's memory"},
		{What: "mounted environment: index of one package", Bound: size(MountPackageIndex), Why: "a worker has it in memory as a whole"},
		{What: "mounted environment: list of what commands read first", Bound: n(MountFirsts) + " chunks of 256 KiB, " + size(MountFirstsBytes), Why: "they are fetched in the background when a command starts"},
		{What: "image that is the root of commands: unpacked, and its layers", Bound: size(MountRootBytes) + " each, " + n(ImageEntries) + " files", Why: "it is unpacked into the cache of the command line"},
		{What: "mounted environment: commands of one agent", Bound: n(AgentConnections), Why: "each is an open connection of the agent"},
		{What: "mounted environment: name of an image, and names of one environment", Bound: size(AgentImage) + ", " + n(MountSources), Why: "names expire, and a part of a package is requested by the newest one first, and then by each of the others"},
		{What: "mounted environment: description of the command for another process of the program", Bound: size(AgentMessage), Why: "the process has it in memory as a whole"},
	}
}
