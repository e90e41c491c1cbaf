M='a b'
export N=${M:-x}
for i in 1 2; do
python3 -m verl.trainer.main_ppo actor_rollout_ref.model.path="$N" data.train_files=[$M,b.parquet] +a.b=null
done
