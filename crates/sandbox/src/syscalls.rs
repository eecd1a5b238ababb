//! The system calls that a confined renderer may make. All others fail with "operation not permitted".
//!
//! Not among them: whatever opens a socket, changes, makes or removes a file by its path, looks into or signals other
//! processes, leaves the process group, makes namespaces, mounts, loads code into the kernel, or does any of these
//! behind the filter's back (`io_uring`).
//!
//! A worker may make all but a few: it writes files and opens connections, and Landlock says which.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

/// Flags of `clone` that make namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// Commands of `fcntl` that say which process hears when a file is ready, and by which signal.
const F_SETOWN: u64 = 8;
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;

/// Allowed with any arguments, on every processor.
const PLAIN: &[libc::c_long] = &[
    // Files that are open, and opening more: Landlock says which.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_preadv,
    libc::SYS_preadv2,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_umask,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_flock,
    libc::SYS_ioctl,
    libc::SYS_pipe2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_signalfd4,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_copy_file_range,
    libc::SYS_memfd_create,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_getxattr,
    libc::SYS_fgetxattr,
    // Memory.
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mincore,
    libc::SYS_msync,
    libc::SYS_mlock,
    libc::SYS_munlock,
    libc::SYS_brk,
    libc::SYS_membarrier,
    // Threads, children, and their ends.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_futex,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_getsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_prctl,
    libc::SYS_getrlimit,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getcpu,
    // Signals of its own.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_setitimer,
    libc::SYS_getitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_delete,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
];

/// Older forms that this processor still has.
#[cfg(target_arch = "x86_64")]
const OLDER: &[libc::c_long] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_arch_prctl,
    libc::SYS_getpgrp,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[libc::c_long] = &[];

/// What no worker does: leave its session, look into other processes, make namespaces, mount, reach the kernel's keys, load code
/// into the kernel, or do any of these behind the filter's back.
const NOT_OF_WORKERS: &[libc::c_long] = &[
    libc::SYS_setsid,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_syslog,
];
/// The bit of the numbers of the x32 interface, which kernels may have beside that of x86-64: to a filter it is the same architecture, and a
/// list of what is denied does not hold there unless it names these numbers, too.
#[cfg(target_arch = "x86_64")]
const X32: Option<i64> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const X32: Option<i64> = None;
/// What of the above has a number of its own there: `ptrace`, `kexec_load`, `process_vm_readv`, `process_vm_writev`.
const OF_X32: &[i64] = &[521, 528, 539, 540];
/// Protocol of `socket` that says TCP; 0 says the same of a stream.
const TCP: u64 = 6;

/// Restricts this process and all that it becomes or starts.
pub(crate) fn restrict() -> Result<(), String> {
    let words = |error: seccompiler::BackendError| error.to_string();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(words)?;
    let compile = |rules, otherwise, matched| -> Result<BpfProgram, String> {
        let filter = SeccompFilter::new(rules, otherwise, matched, architecture).map_err(words)?;
        BpfProgram::try_from(filter).map_err(words)
    };
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let allowed = compile(allowed().map_err(words)?, denied, SeccompAction::Allow)?;
    // Its flags lie in memory, where no filter reads: callers that hear it does not exist fall back to `clone`. The
    // other filter lets it pass, so that this answer counts.
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let no_clone3 = compile([(libc::SYS_clone3, Vec::new())].into(), SeccompAction::Allow, unknown)?;
    apply_filter(&no_clone3).map_err(|error| error.to_string())?;
    apply_filter(&allowed).map_err(|error| error.to_string())
}

/// Restricts a worker, and all that it becomes or starts.
pub(crate) fn restrict_worker() -> Result<(), String> {
    let words = |error: seccompiler::BackendError| error.to_string();
    let architecture = TargetArch::try_from(std::env::consts::ARCH).map_err(words)?;
    let compile = |rules, matched| -> Result<BpfProgram, String> {
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, matched, architecture).map_err(words)?;
        BpfProgram::try_from(filter).map_err(words)
    };
    let denied = compile(denied().map_err(words)?, SeccompAction::Errno(libc::EPERM.cast_unsigned()))?;
    // As for renderers: its flags lie in memory.
    let unknown = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    let no_clone3 = compile([(libc::SYS_clone3, Vec::new())].into(), unknown)?;
    apply_filter(&no_clone3).map_err(|error| error.to_string())?;
    apply_filter(&denied).map_err(|error| error.to_string())
}

fn denied() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        NOT_OF_WORKERS.iter().map(|&call| (call, Vec::new())).collect();
    let condition =
        |argument, operator, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value);
    let of = |value: libc::c_int| u64::from(value.cast_unsigned());
    // Each rule is one way to be denied. A bit of a namespace:
    let mut namespaces = Vec::new();
    for bit in (0..u64::BITS).map(|bit| 1_u64 << bit).filter(|bit| NAMESPACES & bit != 0) {
        namespaces.push(SeccompRule::new(vec![condition(0, SeccompCmpOp::MaskedEq(bit), bit)?])?);
    }
    rules.insert(libc::SYS_clone, namespaces);
    // Any socket but one of TCP, which is all that Landlock holds: not those of other programs of this machine, such as
    // agents that hold keys and daemons that start containers.
    let (four, six) = (of(libc::AF_INET), of(libc::AF_INET6));
    let mut sockets = vec![
        SeccompRule::new(vec![condition(0, SeccompCmpOp::Ne, four)?, condition(0, SeccompCmpOp::Ne, six)?])?,
        SeccompRule::new(vec![condition(2, SeccompCmpOp::Ne, 0)?, condition(2, SeccompCmpOp::Ne, TCP)?])?,
    ];
    for kind in (0..16_u64).filter(|kind| *kind != of(libc::SOCK_STREAM)) {
        sockets.push(SeccompRule::new(vec![condition(1, SeccompCmpOp::MaskedEq(0xf), kind)?])?);
    }
    rules.insert(libc::SYS_socket, sockets);
    // Nobody here is built for it, so there is no way of any of these that is allowed.
    if let Some(bit) = X32 {
        let others: Vec<i64> =
            rules.keys().copied().chain([libc::SYS_clone3]).chain(OF_X32.iter().copied()).collect();
        rules.extend(others.into_iter().map(|call| (call | bit, Vec::new())));
    }
    Ok(rules)
}

fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        PLAIN.iter().chain(OLDER).map(|&call| (call, Vec::new())).collect();
    let only_if = |argument, length, operator, value| {
        let condition = SeccompCondition::new(argument, length, operator, value)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    let no_namespace = only_if(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?;
    rules.insert(libc::SYS_clone, no_namespace);
    rules.insert(libc::SYS_clone3, Vec::new());
    // Its own limits, not those of another process of the same user.
    rules.insert(libc::SYS_prlimit64, only_if(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, 0)?);
    // Anything but having the kernel signal somebody else when a file is ready.
    let not_owner = [F_SETOWN, F_SETSIG, F_SETOWN_EX]
        .into_iter()
        .map(|command| SeccompCondition::new(1, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, command))
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_fcntl, vec![SeccompRule::new(not_owner)?]);
    // The program keeps our number: runtimes signal threads of their own process.
    let own = u64::from(std::process::id());
    rules.insert(libc::SYS_tgkill, only_if(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, own)?);
    Ok(rules)
}
