#!/bin/sh
# Runs once per host before virt-handler starts, and writes down what QEMU can do here; virt-handler
# turns it into node labels. Why not KubeVirt's own script: that one asks for KVM wherever /dev/kvm
# exists. There are machines where the device is present, even runs a boot sector (in seconds, not
# milliseconds), and hangs as soon as a real guest starts: their processor offers no virtualization.
# So KVM counts only when the processor has it and it has booted something; otherwise the question is
# put to the emulator.
set -ex

out=/var/lib/kubevirt-node-labeller
kvm_minor=$(awk '$2 == "kvm" { print $1 }' /proc/misc)
if [ ! -e /dev/kvm ] && [ -n "$kvm_minor" ]; then
	mknod /dev/kvm c 10 "$kvm_minor"
fi
for device in /dev/kvm /dev/sev; do
	if [ -e "$device" ]; then chmod o+rw "$device"; fi
done

# A boot sector of seven bytes: mov dx,0x501; mov al,42; out dx,al; hlt. QEMU's isa-debug-exit device
# ends QEMU with twice that number plus one.
boots_under_kvm() {
	sector=$(mktemp)
	{
		printf '\272\001\005\260\052\356\364'
		head -c 503 /dev/zero
		printf '\125\252'
	} >"$sector"
	status=0
	timeout 10 qemu-system-x86_64 -accel kvm -m 16 -nodefaults -display none -no-reboot \
		-device isa-debug-exit,iobase=0x501,iosize=4 \
		-drive "file=$sector,format=raw,if=ide" || status=$?
	rm -f "$sector"
	[ "$status" = 85 ]
}
virttype=qemu
if [ -e /dev/kvm ] && grep -Eq '^flags.* (vmx|svm)( |$)' /proc/cpuinfo && boots_under_kvm; then
	virttype=kvm
fi

virtqemud -d
tries=0
until virsh version >/dev/null 2>&1; do
	tries=$((tries + 1))
	[ "$tries" -lt 100 ]
	sleep 0.1
done

virsh domcapabilities --machine q35 --arch x86_64 --virttype "$virttype" >"$out/virsh_domcapabilities.xml"
virsh hypervisor-cpu-baseline --features "$out/virsh_domcapabilities.xml" \
	--machine q35 --arch x86_64 --virttype "$virttype" >"$out/supported_features.xml"
virsh capabilities >"$out/capabilities.xml"
