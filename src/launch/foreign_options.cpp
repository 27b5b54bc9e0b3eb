#include "launch/foreign_options.h"

#include <algorithm>

namespace anyaccel::launch {

namespace {

struct Foreign {
  /// Name without leading dashes, with `_` instead of `-`. A one-letter name is case-sensitive and
  /// matches only after a single dash.
  std::string_view name;
  const char* whose;
  const char* instead;
};

constexpr const char* kRanks = "use --num_accelerators N";
constexpr const char* kHosts = "use --num_nodes N with --hostfile";
constexpr const char* kAddress = "use --master_addr ADDRESS and --master_port PORT";
constexpr const char* kNoRestart = "omit it: failed jobs are not restarted";
constexpr const char* kHostFile = "use --hostfile FILE";
constexpr const char* kChosenHosts =
    "use --hostfile FILE, with --include HOST[:SLOT,...] to select hosts";
constexpr const char* kLogs = "use --enable_each_rank_log FOLDER";
constexpr const char* kPrefix = "use --prefix_output";
constexpr const char* kBind = "use --bind_cores_to_rank";
constexpr const char* kVariables =
    "set the variable in the launcher's environment, or in .deepspeed_env for other hosts";
constexpr const char* kFolder = "change to the folder first: ranks start in the launcher's folder";
constexpr const char* kOwnDevices =
    "omit it: each device of this machine gets a rank; --num_accelerators N sets a limit";

constexpr Foreign kForeign[] = {
    {"nnodes", "torchrun's", kHosts},
    {"nproc_per_node", "torchrun's", kRanks},
    {"nproc", "torchrun's", kRanks},
    {"standalone", "torchrun's", "omit it: without a host file the job stays on this machine"},
    {"rdzv_endpoint", "torchrun's", kAddress},
    {"rdzv_backend", "torchrun's", kAddress},
    {"rdzv_conf", "torchrun's", kAddress},
    {"rdzv_id", "torchrun's",
     "omit it: ranks find each other through --master_addr and --master_port"},
    {"local_addr", "torchrun's", kAddress},
    {"max_restarts", "torchrun's", kNoRestart},
    {"monitor_interval", "torchrun's",
     "omit it: the launcher detects immediately when a rank exits"},
    {"start_method", "torchrun's", "omit it: each rank is a separate process"},
    {"role", "torchrun's", "omit it"},
    {"run_path", "torchrun's", "omit it, and pass the script's path"},
    {"log_dir", "torchrun's", kLogs},
    {"redirects", "torchrun's", kLogs},
    {"tee", "torchrun's", kPrefix},
    {"local_ranks_filter", "torchrun's", kLogs},
    {"m", "torchrun's", "use --module"},
    {"r", "torchrun's", kLogs},
    {"t", "torchrun's", kPrefix},
    {"use_env", "torch.distributed.launch's", "use --no_local_rank"},
    {"n", "mpirun's", kRanks},
    {"np", "mpirun's", kRanks},
    {"c", "mpirun's", kRanks},
    {"npernode", "mpirun's", kRanks},
    {"ppn", "mpiexec's", kRanks},
    {"perhost", "mpiexec's", kRanks},
    {"host", "mpirun's", kChosenHosts},
    {"hosts", "mpiexec's", kChosenHosts},
    {"machinefile", "mpirun's", kHostFile},
    {"f", "mpiexec's", kHostFile},
    {"map_by", "mpirun's", "omit it: ranks follow the order of the host file"},
    {"rank_by", "mpirun's", "omit it: ranks follow the order of the host file"},
    {"bind_to", "mpirun's", kBind},
    {"cpu_bind", "srun's", kBind},
    {"report_bindings", "mpirun's", "use --dry_run, which shows each rank's cores"},
    {"tag_output", "mpirun's", kPrefix},
    {"prepend_rank", "mpiexec's", kPrefix},
    {"output_filename", "mpirun's", kLogs},
    {"outfile_pattern", "mpiexec's", kLogs},
    {"x", "mpirun's", kVariables},
    {"genv", "mpiexec's", kVariables},
    {"env", "mpiexec's", kVariables},
    {"envlist", "mpiexec's", kVariables},
    {"export", "srun's", kVariables},
    {"wdir", "mpirun's", kFolder},
    {"wd", "mpirun's", kFolder},
    {"chdir", "srun's", kFolder},
    {"allow_run_as_root", "mpirun's", "use --launcher_args=--allow-run-as-root"},
    {"mca", "mpirun's", "use --launcher_args='--mca NAME VALUE'"},
    {"ntasks", "srun's", kRanks},
    {"ntasks_per_node", "srun's", kRanks},
    {"gpus_per_node", "srun's", kRanks},
    {"gpus", "srun's", kRanks},
    {"nodes", "srun's", kHosts},
    {"N", "srun's", kHosts},
    {"nodelist", "srun's", kChosenHosts},
    {"w", "srun's", kChosenHosts},
    {"num_processes", "accelerate's", kRanks},
    {"num_machines", "accelerate's", kHosts},
    {"machine_rank", "accelerate's", "use --node_rank N with --no_ssh"},
    {"main_process_ip", "accelerate's", "use --master_addr ADDRESS"},
    {"main_process_port", "accelerate's", "use --master_port PORT"},
    {"gpu_ids", "accelerate's", "use --include localhost:0,1, or the accelerator's own variable"},
    {"multi_gpu", "accelerate's", kOwnDevices},
    {"mixed_precision", "accelerate's", "omit it: the program sets its own precision"},
    {"ssh_user", "another launcher's", "use --launcher_args='-l USER'"},
};

}  // namespace

std::string foreign_option(std::string_view name) {
  const bool one_dash = !name.starts_with("--");
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  if (name.size() == 1 && !one_dash) return {};
  std::string plain(name);
  std::replace(plain.begin(), plain.end(), '-', '_');
  for (const auto& one : kForeign)
    if (one.name == plain) return std::string("that is ") + one.whose + "; " + one.instead;
  return {};
}

}  // namespace anyaccel::launch
